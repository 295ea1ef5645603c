// The functions of a controller, and how they answer the world's exports.

import { ApiError, ReconcileError, TerminalError } from "./errors.js";
import { placeOf } from "./guest/trace.js";
import { document, parse } from "./json.js";
import { keyText, parseKey, parseKind } from "./objects.js";
import { millis } from "./local.js";

/** The outcome of a reconcile that succeeded; the key is reconciled again after this time. */
export function requeueAfter(ms) {
  if (!(ms >= 0)) throw new TypeError(`${ms} is not a number of milliseconds`);
  return { requeueAfterMs: ms };
}

/** Parses a key that the mappings `reference`, `dependents` and `ownerReferences` enqueue. */
export function parseReference(text) {
  const parts = text.split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (parts.length !== 5 && parts.length !== 6) {
    throw new TerminalError(`\`${text}\` does not name an object: it would be written \`apps/v1/ReplicaSet/namespace/name/uid\``);
  }
  const [namespace, name, uid] = parts.slice(-3);
  return { kind: parts.slice(0, -3).join("/"), namespace, name, uid };
}

/** Returns the key of a reference. */
export function referenceText({ kind, namespace, name, uid }) {
  parseKind(kind);
  const escaped = [namespace, name, uid].map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1"));
  return [kind, ...escaped].join("/");
}

/**
 * Returns the world's interface `guest` for a controller. `report` is called with the errors that it doesn't expect.
 */
export function guestOf(controller, host, report) {
  return {
    describe() {
      try {
        return document(synchronous("describe", controller.describe(host)));
      } catch (error) {
        report("describe", error);
        throw error;
      }
    },

    reconcile(queue, key, attempt) {
      try {
        const request = { queue, key: parseKey(key), text: key, attempt };
        return lowerOutcome(synchronous("reconcile", controller.reconcile(host, request)));
      } catch (error) {
        return { tag: error instanceof TerminalError ? "terminal" : "failed", val: failure("reconcile", error, report) };
      }
    },

    route(deltas) {
      try {
        if (controller.route === undefined) return [];
        return synchronous("route", controller.route(host, deltas.map(liftDelta))).map(lowerRouted);
      } catch (error) {
        // The bindings turn a thrown text into the error of the result.
        throw failure("route", error, report);
      }
    },
  };
}

function synchronous(name, returned) {
  if (typeof returned?.then === "function") {
    throw new TypeError(`${name} returned a Promise: the host's functions are synchronous, so write it without \`async\``);
  }
  return returned;
}

function lowerOutcome(outcome) {
  const after = outcome?.requeueAfterMs;
  if (after === undefined) return { tag: "done" };
  if (!(after >= 0)) throw new TypeError(`reconcile returned the malformed outcome ${JSON.stringify(outcome)}`);
  return { tag: "requeue-after", val: millis(after) };
}

function liftDelta({ watch, deltaType, old, new: next, initial }) {
  const object = (bytes) => (bytes == null ? undefined : parse(bytes));
  return { watch, type: deltaType, old: object(old), new: object(next), initial };
}

function lowerRouted({ key, queue = "", delayMs = 0 }) {
  const text = typeof key === "string" ? key : keyText(key);
  if (typeof text !== "string" || typeof queue !== "string" || !(delayMs >= 0)) {
    throw new TypeError(`route returned a malformed key: ${JSON.stringify({ key, queue, delayMs })}`);
  }
  return { queue, key: text, delayMs: millis(delayMs) };
}

/** Returns the text of an error. One that the controller doesn't expect is reported, and its text has its place. */
function failure(name, error, report) {
  if (error instanceof ApiError || error instanceof ReconcileError) return describeError(error);
  report(name, error);
  return describeError(error) + (error instanceof Error ? placeOf(error) : "");
}

/** Returns the message of an error and of its causes. */
export function describeError(error) {
  if (!(error instanceof Error)) return String(error);
  const isExpected = error instanceof ApiError || error instanceof ReconcileError;
  const own = isExpected ? error.message : `${error.name}: ${error.message}`;
  return error.cause === undefined ? own : `${own}: ${describeError(error.cause)}`;
}
