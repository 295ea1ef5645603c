import { exported } from "@flyball/sdk/guest";

import { certExpiry } from "./expiry.js";

export const guest = exported(certExpiry);
