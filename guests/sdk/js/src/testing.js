// Tests of controllers without a cluster and without a sandbox: put objects, reconcile a key, and check the writes.

import { ApiError } from "./errors.js";
import { Host } from "./host.js";
import { parse } from "./json.js";
import { keyText, parseKey } from "./objects.js";
import { Access } from "./testing/access.js";
import { failure, thrown } from "./testing/failure.js";
import { discoveryOf, listerOf, readerOf, signerOf } from "./testing/reads.js";
import { Store } from "./testing/store.js";
import { lineOf, writerOf } from "./testing/writes.js";

/** An API server in memory, with the host's other functions. */
export class Cluster {
  #state;

  constructor(objects = []) {
    this.#state = new State();
    objects.forEach((object) => this.put(object));
  }

  // What a test sets up.

  put(object) {
    this.#state.store.put(object);
  }

  edit(kind, key, change) {
    this.#state.store.edit({ kind, ...keyed(key) }, change);
  }

  remove(kind, key) {
    this.#state.store.remove({ kind, ...keyed(key) });
  }

  fail(verb, kind, error, nth = 1) {
    this.#state.faults.push({ verb, kind, skip: nth - 1, error });
  }

  setNow(now) {
    this.#state.store.now = new Date(now);
  }

  advance(ms) {
    this.setNow(this.#state.store.now.getTime() + ms);
  }

  setConfig(key, value) {
    this.#state.config.set(key, value);
  }

  putRaw(path, response) {
    this.#state.raw.set(path, response);
  }

  serve(kind, plural, { namespaced = true, preferred = true, verbs = [], subresources = [] } = {}) {
    this.#state.catalogue.kinds.push({ kind, plural, namespaced, preferred, verbs, subresources });
  }

  failDiscovery(groupVersion, message) {
    this.#state.catalogue.failures.push({ groupVersion, message });
  }

  observeDeletion({ kind, namespace, name, uid }) {
    this.#state.deletions.add([kind, namespace, name, uid].join("\0"));
  }

  addKey(name) {
    this.#state.keys.add(name);
  }

  addAuthority(signer) {
    this.#state.authorities.add(signer);
  }

  // Actions.

  host() {
    this.#state.access = new Access(undefined);
    return new Host(worldOf(this.#state));
  }

  reconcile(controller, key, { queue, attempt = 0 } = {}) {
    const host = this.#hostOf(controller);
    const text = typeof key === "string" ? key : keyText(key);
    const request = { queue: queue ?? this.#state.access.description.queues[0].name, key: parseKey(text), text, attempt };
    const outcome = controller.reconcile(host, request) ?? {};
    if (typeof outcome.then === "function") throw new TypeError("reconcile returned a Promise: the host's functions are synchronous, so write it without `async`");
    return outcome;
  }

  route(controller, deltas) {
    return controller.route(this.#hostOf(controller), deltas);
  }

  #hostOf(controller) {
    const state = this.#state;
    state.access = new Access(undefined);
    const host = new Host(worldOf(state));
    state.access = new Access(JSON.parse(JSON.stringify(controller.describe(host))));
    return host;
  }

  // Checks.

  object(kind, key) {
    const found = this.#state.store.get({ kind, ...keyed(key) });
    return found === undefined ? undefined : structuredClone(found);
  }

  objects(kind) {
    return structuredClone(this.#state.store.ofKind(kind));
  }

  writes() {
    return this.#state.writes.splice(0);
  }

  written() {
    return this.writes().map(lineOf);
  }

  liveReads() {
    return this.#state.liveReads.splice(0);
  }

  recordedEvents() {
    return this.#state.events.splice(0);
  }

  events() {
    return this.recordedEvents().map(({ type, reason, message }) => `${type} ${reason} ${message}`);
  }

  enqueued() {
    return this.#state.enqueued.splice(0);
  }

  logged() {
    return this.#state.logs.splice(0);
  }

  metrics() {
    return this.#state.metrics.splice(0);
  }

  signed() {
    return this.#state.tokens.map(({ key, token, claims }) => ({ key, token, claims: parse(claims) }));
  }

  certificates() {
    return [...this.#state.certificates];
  }
}

/** An error of the API server, for `Cluster.fail`. */
export function refusal(status, reason, message = `the test refuses this: ${reason}`) {
  return new ApiError({ status, reason, message, effect: status < 500 ? "refused" : "unknown" });
}

/** The state of a cluster, which the world's interfaces share. */
class State {
  store = new Store(new Date("2026-01-01T00:00:00Z"));
  access = new Access(undefined);
  faults = [];
  writes = [];
  liveReads = [];
  events = [];
  enqueued = [];
  logs = [];
  metrics = [];
  config = new Map();
  raw = new Map();
  catalogue = { kinds: [], failures: [] };
  deletions = new Set();
  memo = new Map();
  memoVersion = 0;
  keys = new Set();
  tokens = [];
  authorities = new Set();
  certificates = [];
  random = 0x9e3779b9;

  constructor() {
    this.store.onDelete = (uid) => {
      for (const [key, entry] of this.memo) if (entry.uid === uid) this.memo.delete(key);
    };
  }

  /** Fails if the plugin does not ask for a verb, or if a failure is injected. */
  admit(verb, kind, subresource) {
    this.access.admit(verb, kind, subresource);
    this.failIfDue(verb, subresource === "" ? kind : `${kind}/${subresource}`);
  }

  failIfDue(verb, kind) {
    const own = this.faults.filter((fault) => fault.verb === verb && fault.kind === kind);
    const due = own.find((fault) => fault.skip === 0);
    own.filter((fault) => fault.skip > 0).forEach((fault) => { fault.skip -= 1; });
    if (due === undefined) return;
    this.faults.splice(this.faults.indexOf(due), 1);
    const { status, reason, detail, effect, retryAfterMs } = due.error;
    throw thrown({ status, reason, message: detail, effect, retryAfterMs });
  }
}

function worldOf(state) {
  return {
    lister: listerOf(state),
    reader: readerOf(state),
    discovery: discoveryOf(state),
    writer: writerOf(state),
    signer: signerOf(state),
    memo: memoOf(state),
    events: {
      emit: (about, type, reason, message, options) => void state.events.push({ about, type, reason, message, options: parse(options) ?? {} }),
    },
    queue: {
      add: (queue, key) => void state.enqueued.push({ queue, key, afterMs: 0 }),
      addAfter: (queue, key, afterMs) => void state.enqueued.push({ queue, key, afterMs }),
      forget: () => {},
      requeues: () => 0,
    },
    clock: {
      now: () => {
        const ms = state.store.now.getTime();
        return { seconds: Math.floor(ms / 1000), nanoseconds: (ms % 1000) * 1e6 };
      },
    },
    // The same sequence of bytes in each run (xorshift).
    random: {
      bytes: (count) => Uint8Array.from({ length: count }, () => {
        for (const shift of [13, -17, 5]) state.random ^= shift > 0 ? state.random << shift : state.random >>> -shift;
        return state.random >>> 24;
      }),
    },
    log: {
      write: (level, message, fields) => void state.logs.push({ level, message, fields: Object.fromEntries(fields.map(({ name, value }) => [name, value])) }),
      enabled: () => true,
    },
    metrics: Object.fromEntries(["add", "set", "observe"].map((operation) =>
      [operation, (name, labels, value) => void state.metrics.push({ operation, name, labels, value })])),
    config: {
      get: (key) => state.config.get(key) ?? state.access.description?.config?.[key]?.default ?? null,
    },
  };
}

function memoOf(state) {
  const live = (key) => {
    const entry = state.memo.get(key);
    return entry === undefined || entry.expires <= state.store.now.getTime() ? undefined : entry;
  };
  return {
    get(key) {
      const entry = live(key);
      return entry === undefined ? null : { value: entry.value, version: entry.version };
    },
    put(key, expected, value, uid, ttlMs) {
      const current = live(key)?.version ?? 0;
      if (current !== expected) throw failure("Conflict", `the memo's key \`${key}\` is at version ${current}, not ${expected}`);
      const expires = ttlMs === 0 ? Infinity : state.store.now.getTime() + ttlMs;
      state.memo.set(key, { value, uid, expires, version: ++state.memoVersion });
      return state.memoVersion;
    },
    remove: (key) => void state.memo.delete(key),
  };
}

const keyed = (key) => (typeof key === "string" ? parseKey(key) : { namespace: key.namespace ?? "", name: key.name });
