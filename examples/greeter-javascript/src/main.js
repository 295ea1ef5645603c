import { exported } from "@flyball/sdk/guest";

import { greeter } from "./greeter.js";

export const guest = exported(greeter);
