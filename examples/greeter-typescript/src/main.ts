import { exported } from "@flyball/sdk/guest";

import { greeter } from "./greeter.ts";

export const guest = exported(greeter);
