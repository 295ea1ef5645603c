// The greeter in JavaScript with faults: see README.md in the folder above.

import { ReconcileError, TerminalError, isConflict, requeueAfter } from "@flyball/sdk";
import { exported } from "@flyball/sdk/guest";

import { GREETING, greeter } from "../../../../examples/greeter-javascript/src/greeter.js";

/** The number of calls of this instance that counted. */
let counted = 0;

export const guest = exported({
  ...greeter,
  reconcile(host, request) {
    const greeting = host.get(GREETING, request.key);
    switch (greeting?.spec?.text) {
      case "fault: raise":
        return raise(undefined);
      case "fault: loop":
        for (;;);
      case "fault: error":
        throw new ReconcileError("asked to fail");
      case "fault: terminal":
        throw new TerminalError("no retry can help");
      case "fault: requeue":
        return requeueAfter(50);
      case "fault: conflict":
        return conflict(host, greeting);
      case "fault: count":
        counted += 1;
        throw new TerminalError(`call ${counted} of this instance`);
      default:
        return greeter.reconcile(host, request);
    }
  },
});

function raise(greeting) {
  return greeting.spec.text; // the bug
}

function conflict(host, greeting) {
  const stale = { ...greeting, metadata: { ...greeting.metadata, resourceVersion: "1" } };
  try {
    host.update(GREETING, stale, { spec: { text: "overwritten" } });
  } catch (error) {
    if (isConflict(error)) throw new ReconcileError(`found a conflict: ${error.message}`);
    throw error;
  }
  throw new ReconcileError("found no conflict");
}
