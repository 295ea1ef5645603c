// The sandbox side: the world's imports as a `Host`, and a `Controller` as the world's exports. Only the entry file of
// a guest imports this module; the imports below exist in the sandbox alone.

import clock from "flyball:controller/clock@0.2.0";
import config from "flyball:controller/config@0.2.0";
import discovery from "flyball:controller/discovery@0.2.0";
import events from "flyball:controller/events@0.2.0";
import lister from "flyball:controller/lister@0.2.0";
import log from "flyball:controller/log@0.2.0";
import memo from "flyball:controller/memo@0.2.0";
import metrics from "flyball:controller/metrics@0.2.0";
import queue from "flyball:controller/queue@0.2.0";
import random from "flyball:controller/random@0.2.0";
import reader from "flyball:controller/reader@0.2.0";
import signer from "flyball:controller/signer@0.2.0";
import writer from "flyball:controller/writer@0.2.0";

import { guestOf } from "./controller.js";
import { checked } from "./guest/checked.js";
import { consoleOf } from "./guest/console.js";
import { installClock, installClone, installRandom, installText } from "./guest/globals.js";
import { traceOf } from "./guest/trace.js";
import { Host } from "./host.js";

// The modules are loaded during the build. An instance begins with their state after that.
let isLoading = true;

const world = { clock, config, discovery, events, lister, log, memo, metrics, queue, random, reader, signer, writer };
const host = new Host(checked(world, () => isLoading));

globalThis.console = consoleOf(host.log);
installClock(() => host.now().getTime());
installRandom(host);
installText();
installClone();

/** Exports a controller: `export const guest = exported(myController)` in the entry file. */
export function exported(controller) {
  const guest = guestOf(controller, host, (name, error) => host.log.error(`uncaught exception in ${name}: ${traceOf(error)}`));
  const entered = (run) => (...args) => {
    isLoading = false;
    return run(...args);
  };
  return { describe: entered(guest.describe), reconcile: entered(guest.reconcile), route: entered(guest.route) };
}
