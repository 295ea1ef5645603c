// Tests of controllers without a cluster and without a sandbox: put objects, reconcile a key, and check the writes.

import { resolve } from "node:path";

import { guestOf } from "./controller.js";
import { ApiError } from "./errors.js";
import { Host } from "./host.js";
import { document, parse } from "./json.js";
import { keyText, parseKey } from "./objects.js";
import { call } from "./testing/server.js";
import { worldOf } from "./testing/world.js";

/**
 * Repeats the calls of a recording, which `flyball record` has written. Throws where the controller asks or writes
 * something else than it did then, or ends in another way.
 */
export function replay(controller, file) {
  replayAll(controller, file, false);
}

/**
 * Repeats the calls of a recording as `replay` does, but those that failed must no longer fail: a regression test of a
 * fixed bug. Such a call must end well, or ask all that the failed call asked and then more, to which the recording has no
 * answer. Throws if the recording has no call that failed.
 */
export function replayFixed(controller, file) {
  replayAll(controller, file, true);
}

function replayAll(controller, file, fixed) {
  const path = resolve(file);
  const calls = call(0, "recording", { file: path, fixed });
  if (calls.length === 0) throw new TypeError(`${file}: the recording has no call to repeat`);
  for (const recorded of calls) {
    const number = call(0, "replay", { file: path, line: recorded.line });
    const guest = guestOf(controller, new Host(worldOf((name, args) => call(number, name, args))), () => {});
    call(number, "replayed", { ended: endOf(guest, recorded.call), fixed });
  }
}

/** Calls the controller as the sandbox does. Returns how the call ended, as a recording has it. */
function endOf(guest, { describe, reconcile, route }) {
  if (reconcile !== undefined) {
    const { queue, key, attempt } = reconcile;
    const { tag, val } = guest.reconcile(queue, key, attempt);
    if (tag === "done") return { done: {} };
    return tag === "requeue-after" ? { requeueAfter: { ms: val } } : { [tag]: { message: val } };
  }
  if (route !== undefined) {
    const bytes = (object) => (object === undefined ? undefined : document(object));
    const deltas = route.deltas.map(({ type, old, new: next, ...more }) => ({ ...more, deltaType: type, old: bytes(old), new: bytes(next) }));
    try {
      return { routed: { keys: guest.route(deltas) } };
    } catch (message) {
      return { notRouted: { message } };
    }
  }
  if (describe !== undefined) return { described: { description: parse(guest.describe()) } };
  throw new TypeError("a call of this kind is repeated by `flyball replay` alone");
}

/** An API server in memory, with the host's other functions. */
export class Cluster {
  #number;
  #host;

  constructor(objects = [], { define } = {}) {
    this.#number = call(0, "new");
    this.#host = new Host(worldOf((name, args) => this.#call(name, args)));
    if (define !== undefined) this.define(define);
    objects.forEach((object) => this.put(object));
  }

  #call(name, args) {
    return call(this.#number, name, args);
  }

  // Functions to set up a test.

  define(file) {
    this.#call("define", { file: resolve(file) });
  }

  put(object) {
    this.#call("put", { object });
  }

  putLive(object) {
    this.#call("put-live", { object });
  }

  removeLive(kind, key) {
    this.#call("remove-live", { kind, ...keyed(key) });
  }

  edit(kind, key, change) {
    const object = this.object(kind, key);
    if (object === undefined) throw new TypeError(`edit: there is no ${kind} ${keyText(keyed(key))}`);
    change(object);
    this.#call("replace", { object });
  }

  delete(kind, key) {
    this.#call("delete", { kind, ...keyed(key) });
  }

  remove(kind, key) {
    this.#call("remove", { kind, ...keyed(key) });
  }

  fail(verb, kind, { status, reason, detail, effect, retryAfterMs }, nth = 1) {
    this.#call("fail", { verb, kind, nth, error: { status, reason, message: detail, effect, retryAfterMs } });
  }

  answer(kind, answer) {
    this.#call("answer", { kind, answer });
  }

  limitRate(calls, windowMs) {
    this.#call("limit-rate", { calls, windowMs });
  }

  setNow(now) {
    const ms = new Date(now).getTime();
    this.#call("set-now", { time: { seconds: Math.floor(ms / 1000), nanoseconds: (ms % 1000) * 1e6 } });
  }

  advance(ms) {
    this.#call("advance", { ms });
  }

  setConfig(key, value) {
    this.#call("set-config", { key, value });
  }

  putRaw(path, answer) {
    this.#call("put-raw", { path, answer });
  }

  serve(kind, plural, { namespaced = true, verbs = [], subresources = [] } = {}) {
    this.#call("serve", { kind, plural, namespaced, verbs, subresources: subresources.map(({ name, verbs }) => [name, verbs]) });
  }

  failDiscovery(groupVersion, message) {
    this.#call("fail-discovery", { groupVersion, message });
  }

  observeDeletion(object) {
    this.#call("observe-deletion", object);
  }

  addKey(name) {
    this.#call("add-key", { name });
  }

  addAuthority(signer) {
    this.#call("add-authority", { signer });
  }

  // Actions.

  host() {
    this.#call("restrict", { description: null });
    return this.#host;
  }

  reconcile(controller, key, { queue, attempt = 0 } = {}) {
    const { queues } = this.#describe(controller);
    const text = typeof key === "string" ? key : keyText(key);
    const request = { queue: queue ?? queues[0].name, key: parseKey(text), text, attempt };
    const outcome = controller.reconcile(this.#host, request) ?? {};
    if (typeof outcome.then === "function") throw new TypeError("reconcile returned a Promise: the host's functions are synchronous, so write it without `async`");
    return outcome;
  }

  route(controller, deltas) {
    this.#describe(controller);
    return controller.route(this.#host, deltas);
  }

  /** Restricts the host to the controller's description, and returns that. */
  #describe(controller) {
    const description = JSON.parse(JSON.stringify(controller.describe(this.host())));
    this.#call("restrict", { description });
    return description;
  }

  // Checks.

  object(kind, key) {
    return this.#call("object", { kind, ...keyed(key) }) ?? undefined;
  }

  objects(kind) {
    return this.#call("objects", { kind });
  }

  writes() {
    return this.#call("writes").map(withoutNulls);
  }

  written() {
    return this.writes().map(({ line }) => line);
  }

  liveReads() {
    return this.#call("live-reads");
  }

  recordedEvents() {
    return this.#call("events");
  }

  events() {
    return this.recordedEvents().map(({ line }) => line);
  }

  enqueued() {
    return this.#call("enqueued").map(({ queue, key, delayMs }) => ({ queue, key, afterMs: delayMs }));
  }

  logged() {
    return this.#call("logs").map(({ fields, ...line }) => ({ ...line, fields: Object.fromEntries(fields) }));
  }

  metrics() {
    return this.#call("metrics");
  }

  signed() {
    return this.#call("signed");
  }

  certificates() {
    return this.#call("certificates");
  }
}

/** An error of the API server, for `Cluster.fail`. */
export function refusal(status, reason, message = `the test refuses this: ${reason}`) {
  return new ApiError({ status, reason, message, effect: status < 500 ? "refused" : "unknown" });
}

const keyed = (key) => (typeof key === "string" ? parseKey(key) : { namespace: key.namespace ?? "", name: key.name });

const withoutNulls = (record) => Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null));
