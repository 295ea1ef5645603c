import { exported } from "@flyball/sdk/guest";

import { idleScaler } from "./scaler.ts";

export const guest = exported(idleScaler);
