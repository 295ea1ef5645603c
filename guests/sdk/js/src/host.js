// The host's functions for a controller: cached reads, writes, events, the clock and the other imports. They are built
// on the world's imports, which `guest.js` takes from the sandbox and `testing.js` from a cluster in memory.

import { Batch } from "./batch.js";
import { featureGateKey } from "./describe.js";
import { TerminalError, call } from "./errors.js";
import { parse } from "./json.js";
import { selectorText } from "./labels.js";
import { Live } from "./live.js";
import { withFinalizer, withoutFinalizer } from "./objects.js";
import { Log, Memo, Metrics, Queue, Signer, emit } from "./local.js";

export class Host {
  constructor(world) {
    this.world = world;
    this.live = new Live(world.reader);
    this.log = new Log(world.log);
    this.queue = new Queue(world.queue);
    this.metrics = new Metrics(world.metrics);
    this.memo = new Memo(world.memo);
    this.signer = new Signer(world.signer);
  }

  // Cached reads.

  get(kind, { namespace, name }, { fields = [] } = {}) {
    const found = call(() => this.world.lister.get(kind, namespace ?? "", name, fields));
    return found == null ? undefined : parse(found);
  }

  list(kind, query) {
    return [...this.each(kind, query)];
  }

  *each(kind, query = {}) {
    const { fields, pageSize } = query;
    const projection = fields === undefined ? { tag: "all" } : { tag: "fields", val: fields };
    yield* this.#pages(kind, query, projection, pageSize);
  }

  rows(kind, columns, query = {}) {
    return [...this.#pages(kind, query, { tag: "columns", val: columns }, query.pageSize)];
  }

  count(kind, query = {}) {
    return call(() => this.world.lister.count(lowerQuery(kind, query)));
  }

  deletionObserved(reference) {
    return this.world.lister.deletionObserved(reference);
  }

  *#pages(kind, query, projection, limit = 0) {
    let page = call(() => this.world.lister.list(lowerQuery(kind, query), projection, limit));
    for (;;) {
      yield* parse(page.items);
      const { rest } = page;
      if (rest == null) return;
      page = call(() => this.world.lister.next(rest, limit));
    }
  }

  kinds() {
    return call(() => this.world.discovery.kinds());
  }

  // Writes.

  batch() {
    return new Batch(this.world.writer);
  }

  create(kind, object, options) {
    return this.batch().create(kind, object, options).only();
  }

  createOn(kind, key, subresource, body, options) {
    return this.batch().createOn(kind, key, subresource, body, options).only();
  }

  update(kind, object, change, options) {
    return this.batch().update(kind, object, change, options).only();
  }

  updateStatus(kind, object, status, options) {
    return this.batch().updateStatus(kind, object, status, options).only();
  }

  patch(kind, key, patchType, patch, options) {
    return this.batch().patch(kind, key, patchType, patch, options).only();
  }

  apply(kind, object, options) {
    return this.batch().apply(kind, object, options).only();
  }

  delete(kind, object, options) {
    return this.batch().delete(kind, object, options).only();
  }

  deleteCollection(kind, query, options) {
    return this.batch().deleteCollection(kind, query, options).only();
  }

  addFinalizer(kind, object, finalizer, options) {
    return this.update(kind, object, withFinalizer(object, finalizer), options);
  }

  removeFinalizer(kind, object, finalizer, options) {
    return this.update(kind, object, withoutFinalizer(object, finalizer), options);
  }

  // Events, clock, randomness and configuration.

  emit(kind, about, type, reason, message, options) {
    emit(this.world.events, kind, about, type, reason, message, options);
  }

  now() {
    const { seconds, nanoseconds } = this.world.clock.now();
    return new Date(seconds * 1000 + Math.floor(nanoseconds / 1e6));
  }

  random(count) {
    return this.world.random.bytes(count);
  }

  config(key) {
    return this.world.config.get(key) ?? undefined;
  }

  configNumber(key, otherwise, { min = -Infinity, max = Infinity } = {}) {
    const text = this.config(key);
    if (text === undefined) return otherwise;
    const number = text.trim() === "" ? NaN : Number(text);
    if (!(number >= min && number <= max)) throw invalidConfig(key, text);
    return number;
  }

  configDuration(key, otherwiseMs) {
    const text = this.config(key);
    if (text === undefined) return otherwiseMs;
    const ms = durationMs(text);
    if (ms === undefined) throw invalidConfig(key, text);
    return ms;
  }

  featureEnabled(name) {
    return this.config(featureGateKey(name)) === "true";
  }
}

function lowerQuery(kind, { namespace = "", labels, index, uid, owner, controller, orphans }) {
  const conditions = [];
  if (labels !== undefined) conditions.push({ name: "labels", value: selectorText(labels) });
  for (const [name, value] of Object.entries(index ?? {})) conditions.push({ name: `index/${name}`, value });
  for (const [name, value] of Object.entries({ uid, owner, controller })) {
    if (value !== undefined) conditions.push({ name, value });
  }
  if (orphans) conditions.push({ name: "orphan", value: "" });
  return { kind, namespace, conditions };
}

const UNITS = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 1e-3, µs: 1e-3, ns: 1e-6 };

/** Returns the milliseconds of a duration such as `1m30s`; `undefined` if the text isn't a duration. */
function durationMs(text) {
  if (text === "0") return 0;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)/gy)];
  if (parts.length === 0 || parts.reduce((length, [part]) => length + part.length, 0) !== text.length) return undefined;
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

const invalidConfig = (key, text) => new TerminalError(`invalid value of setting ${key}: \`${text}\``);
