// Builders for the result of `describe`. A description has watches; a watch has mappings, which turn a change of an
// object into the keys to enqueue. `JSON.stringify` of a builder is the document of `describe.schema.json`.

import { parseKind } from "./objects.js";

const FORMAT = 1;

/** Starts a description. */
export function describe(name, version) {
  return new Description(name, version);
}

/** A watch of a kind. */
export function watch(kind) {
  return new Watch({ kind: checked(kind) });
}

/** A watch of the kinds that the API server serves. */
export function watchDiscovered({ verbs, except, ...discovered }) {
  return new Watch({ discovered: { ...discovered, ...defined({ verbs, except: except?.map(checked) }) } });
}

export class Description {
  #document;

  constructor(name, version) {
    this.#document = { format: FORMAT, name, version, concurrency: 1, watches: [], queues: [], permissions: [] };
  }

  watch(watch) {
    this.#document.watches.push(watch.toJSON());
    return this;
  }

  queue(name, settings = {}) {
    this.#document.queues.push({ name, ...settings });
    return this;
  }

  ticker(key, periodMs, options = {}) {
    (this.#document.tickers ??= []).push({ key, periodMs, ...options });
    return this;
  }

  index(name, kind, path) {
    (this.#document.indexes ??= []).push({ name, kind: checked(kind), path });
    return this;
  }

  permission(kind, ...verbs) {
    this.#document.permissions.push({ kind, verbs: [...new Set(verbs)] });
    return this;
  }

  inNamespaces(...namespaces) {
    const permission = this.#document.permissions.at(-1);
    if (permission === undefined) throw new Error("inNamespaces follows a permission: ask for one first");
    permission.namespaces = [...new Set([...(permission.namespaces ?? []), ...namespaces])];
    return this;
  }

  permissionOn(kind, subresource, ...verbs) {
    this.#document.permissions.push({ kind, subresource, verbs: [...new Set(verbs)] });
    return this;
  }

  import(...names) {
    this.#document.imports = [...new Set([...(this.#document.imports ?? []), ...names])];
    return this;
  }

  config(key, { default: value, help = "" } = {}) {
    (this.#document.config ??= {})[key] = { ...defined({ default: value }), help };
    return this;
  }

  featureGate(name, value) {
    return this.config(featureGateKey(name), { default: String(value), help: "A feature gate of Kubernetes: true or false." });
  }

  counter(name, help, ...labels) {
    return this.#metric("counter", name, help, labels);
  }

  gauge(name, help, ...labels) {
    return this.#metric("gauge", name, help, labels);
  }

  sum(name, help, ...labels) {
    return this.#metric("sum", name, help, labels);
  }

  histogram(name, buckets, help, ...labels) {
    return this.#metric({ histogram: buckets }, name, help, labels);
  }

  concurrency(keys) {
    this.#document.concurrency = keys;
    return this;
  }

  memoSchema(schema) {
    this.#document.memoSchema = schema;
    return this;
  }

  toJSON() {
    return this.#document;
  }

  #metric(type, name, help, labels) {
    (this.#document.metrics ??= []).push({ name, help, labels, type });
    return this;
  }
}

export class Watch {
  #document;

  constructor(document) {
    this.#document = document;
  }

  fields(...paths) {
    this.#document.fields = [...new Set([...(this.#document.fields ?? []), ...paths])];
    return this;
  }

  namespace(namespace) {
    this.#document.namespace = namespace;
    return this;
  }

  labelSelector(selector) {
    this.#document.labelSelector = selector;
    return this;
  }

  fieldSelector(selector) {
    this.#document.fieldSelector = selector;
    return this;
  }

  metadataOnly() {
    this.#document.metadataOnly = true;
    return this;
  }

  enqueue(mapping) {
    (this.#document.map ??= []).push(mapping.toJSON());
    return this;
  }

  when(...changes) {
    (this.#document.changes ??= []).push(...changes);
    return this;
  }

  whenAt(...paths) {
    return this.when(...paths.map((path) => ({ path })));
  }

  toJSON() {
    return this.#document;
  }
}

export class Mapping {
  #document;

  constructor(document) {
    this.#document = document;
  }

  static itself() {
    return new Mapping({ to: "itself" });
  }

  static controller(kind) {
    return new Mapping({ to: "controller", kind: checked(kind) });
  }

  static owners(kind) {
    return new Mapping({ to: "owner", kind: checked(kind) });
  }

  static named(path) {
    return new Mapping({ to: "named", path, namespaced: true });
  }

  static namedInCluster(path) {
    return new Mapping({ to: "named", path, namespaced: false });
  }

  static selecting(kind, path) {
    return new Mapping({ to: "selecting", kind: checked(kind), path });
  }

  static allInNamespace(kind) {
    return new Mapping({ to: "inNamespace", kind: checked(kind) });
  }

  static allOf(kind) {
    return new Mapping({ to: "all", kind: checked(kind) });
  }

  static namespace() {
    return new Mapping({ to: "namespace" });
  }

  static key(key) {
    return new Mapping({ to: "constant", key });
  }

  static reference() {
    return new Mapping({ to: "reference" });
  }

  static dependents() {
    return new Mapping({ to: "dependents" });
  }

  static ownerReferences(which) {
    return new Mapping({ to: "ownerReferences", which });
  }

  static route() {
    return new Mapping({ to: "route" });
  }

  on(...types) {
    (this.#document.on ??= []).push(...types);
    return this;
  }

  orphans() {
    this.#document.orphans = true;
    return this;
  }

  deleting() {
    this.#document.deleting = true;
    return this;
  }

  having(path, value) {
    (this.#document.having ??= []).push({ path, value });
    return this;
  }

  havingAny(...paths) {
    (this.#document.havingAny ??= []).push(...paths);
    return this;
  }

  unless(path, value) {
    (this.#document.unless ??= []).push(value === undefined ? { path } : { path, value });
    return this;
  }

  whileAny(...kinds) {
    (this.#document.whileAny ??= []).push(...kinds.map(checked));
    return this;
  }

  of(kind) {
    if (this.#document.to !== "named") throw new TypeError("`of` applies only to `Mapping.named`");
    this.#document.kind = checked(kind);
    return this;
  }

  missing() {
    if (this.#document.to !== "named") throw new TypeError("`missing` applies only to `Mapping.named`");
    this.#document.missing = true;
    return this;
  }

  whose(path, value) {
    if (!["selecting", "named"].includes(this.#document.to)) throw new TypeError("`whose` applies only to `Mapping.selecting` and `Mapping.named`");
    (this.#document.whose ??= []).push({ path, value });
    return this;
  }

  queue(name) {
    this.#document.queue = name;
    return this;
  }

  after(delayMs) {
    this.#document.delayMs = delayMs;
    return this;
  }

  toJSON() {
    return this.#document;
  }
}

/** The configuration key that holds the value of a feature gate. */
export function featureGateKey(name) {
  return `feature-gates.${name}`;
}

function checked(kind) {
  parseKind(kind);
  return kind;
}

const defined = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
