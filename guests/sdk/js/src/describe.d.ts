/** The document that `describe` returns: `wit/describe.schema.json`. */
export interface DescriptionDocument {
  format: 1;
  name: string;
  version?: string;
  concurrency?: number;
  watches?: WatchDocument[];
  queues: QueueDocument[];
  permissions?: { kind: string; subresource?: string; verbs: Verb[]; namespaces?: string[] }[];
  indexes?: { name: string; kind: string; path: string }[];
  tickers?: { key: string; periodMs: number; queue?: string; config?: string }[];
  imports?: Import[];
  config?: Record<string, { default?: string; help?: string }>;
  metrics?: { name: string; help: string; labels?: string[]; type: "counter" | "gauge" | "sum" | { histogram: number[] } }[];
  memoSchema?: number;
}

export interface WatchDocument {
  kind?: string;
  discovered?: Discovered;
  fields?: string[];
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  metadataOnly?: boolean;
  map?: { to: string; [option: string]: unknown }[];
  changes?: Change[];
}

export type QueueDocument = { name: string } & QueueSettings;

/** The settings of a workqueue. The defaults are client-go's. */
export interface QueueSettings {
  /** Backoff after the first failure of a key. Each further failure doubles it. */
  baseDelayMs?: number;
  maxDelayMs?: number;
  /** Retries of a key before it is dropped until something changes. */
  maxRetries?: number;
  /** Retries per second of all keys together; 0 for no limit. */
  qps?: number;
  burst?: number;
}

/** The kinds that the API server serves, followed as they are added and removed. Only metadata is cached. */
export interface Discovered {
  /** Time between two discovery requests. */
  periodMs: number;
  /** Configuration key whose value takes precedence over `periodMs`. */
  config?: string;
  /** Only kinds with all of these verbs. */
  verbs?: Exclude<Verb, "*">[];
  /** Kinds that are left out. */
  except?: string[];
  /** A counter of the plugin that counts failed discovery. */
  errors?: string;
}

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection" | "*";
export type Import = "cloud" | "discovery" | "raw" | "signer";
export type DeltaType = "added" | "modified" | "deleted";
/** A predicate on updates: the generation, the labels, or the value at a field path differs. */
export type Change = "generation" | "labels" | { path: string };

/**
 * Starts a description. `name` is the controller's name: lower-case letters, digits and dashes.
 *
 * The functions of `Description`, `Watch` and `Mapping` change it and return it. They throw a TypeError if a kind does
 * not have the form `apps/v1/Deployment`.
 */
export function describe(name: string, version: string): Description;
/** A watch of a kind, without fields. */
export function watch(kind: string): Watch;
/** A watch of the kinds that the API server serves. */
export function watchDiscovered(kinds: Discovered): Watch;

export class Description {
  constructor(name: string, version: string);
  watch(watch: Watch): this;
  /** Adds a queue. The first one is the primary queue. */
  queue(name: string, settings?: QueueSettings): this;
  /** Adds a key that is enqueued periodically, in the primary queue unless another one is named. */
  ticker(key: string, periodMs: number, options?: { queue?: string; config?: string }): this;
  /** Adds an index of a watched kind by the value of a field. */
  index(name: string, kind: string, path: string): this;
  /** Requests verbs on a kind; `*` means all kinds. */
  permission(kind: string, ...verbs: Verb[]): this;
  /** Requests verbs on a subresource of a kind. */
  permissionOn(kind: string, subresource: string, ...verbs: Verb[]): this;
  /** Restricts the permission that was asked for last to these namespaces. */
  inNamespaces(...namespaces: string[]): this;
  /** Requests imports that need a grant. */
  import(...names: Import[]): this;
  /** Declares a configuration key. */
  config(key: string, options?: { default?: string; help?: string }): this;
  /** Declares a feature gate of Kubernetes, for `Host.featureEnabled`. */
  featureGate(name: string, value: boolean): this;
  counter(name: string, help: string, ...labels: string[]): this;
  gauge(name: string, help: string, ...labels: string[]): this;
  /** A gauge that shows the sum of the values that each key has set last. Setting 0 removes the key's part. */
  sum(name: string, help: string, ...labels: string[]): this;
  /** `buckets` are upper bounds. */
  histogram(name: string, buckets: number[], help: string, ...labels: string[]): this;
  /** Sets how many keys are reconciled concurrently; 1 by default. */
  concurrency(keys: number): this;
  /** Sets the schema of the memo. A reload with another schema empties the memo. */
  memoSchema(schema: number): this;
  toJSON(): DescriptionDocument;
}

export class Watch {
  constructor(document: WatchDocument);
  /** Adds field paths; `.` means the whole object. Name, namespace, UID and resource version are always included. */
  fields(...paths: string[]): this;
  /** Watches only this namespace. */
  namespace(namespace: string): this;
  labelSelector(selector: string): this;
  /** Watches only objects whose fields match, as in `metadata.name=kube-root-ca.crt`. */
  fieldSelector(selector: string): this;
  /** Caches only metadata. */
  metadataOnly(): this;
  /** Adds a mapping. Without one, the kind is only read. */
  enqueue(mapping: Mapping): this;
  /** Maps only modifications that match one of these predicates. */
  when(...changes: Change[]): this;
  /** Maps only modifications at these paths, in addition to the modifications that `when` adds. */
  whenAt(...paths: string[]): this;
  toJSON(): WatchDocument;
}

/** The keys that a change of a watched object enqueues. The conditions of one mapping all have to hold. */
export class Mapping {
  constructor(document: { to: string; [option: string]: unknown });
  /** The object itself. */
  static itself(): Mapping;
  /** The object's controller, if it is of this kind. */
  static controller(kind: string): Mapping;
  /** The object's owners of this kind. */
  static owners(kind: string): Mapping;
  /** The objects whose names are at this path, in the namespace of the watched object. */
  static named(path: string): Mapping;
  /** The cluster-scoped objects whose names are at this path. */
  static namedInCluster(path: string): Mapping;
  /**
   * The objects of this kind, in the same namespace, whose selector at `path` matches the labels of the watched object.
   */
  static selecting(kind: string, path: string): Mapping;
  /** All objects of this kind in the same namespace. */
  static allInNamespace(kind: string): Mapping;
  /** All objects of this kind. */
  static allOf(kind: string): Mapping;
  /** The namespace of the object. */
  static namespace(): Mapping;
  /** A constant key. */
  static key(key: string): Mapping;
  /** A reference to the object, such as `apps/v1/ReplicaSet/namespace/name/uid`. */
  static reference(): Mapping;
  /** References to all objects, of any watched kind, that name the object as an owner. */
  static dependents(): Mapping;
  /** References to some of the object's owners. */
  static ownerReferences(which: "missing" | "deleting"): Mapping;
  /** The keys that the controller's `route` returns. */
  static route(): Mapping;

  /** Applies only to these types of delta. */
  on(...types: DeltaType[]): this;
  /** Applies only to objects without a controller. */
  orphans(): this;
  /** Applies only to objects that are being deleted. */
  deleting(): this;
  /** Applies only to objects whose field at `path` is, or contains, this string. */
  having(path: string, value: string): this;
  /** Applies only to objects that have a string at one or more of these paths. */
  havingAny(...paths: string[]): this;
  /**
   * Skips deltas whose newest version has this string, or any string, at `path`: such objects don't need another
   * reconcile. The other conditions hold for a modification if either version meets them.
   */
  unless(path: string, value?: string): this;
  /**
   * Applies only while the cache holds an object of one of these kinds in the namespace of the watched object. The plugin
   * must watch the kinds. Changes that are skipped don't come again, so an object of the kinds that is created later must
   * enqueue the key by a mapping of its own watch.
   */
  whileAny(...kinds: string[]): this;
  /** Names the kind of the named objects, for `whose` or `missing`. The plugin must watch it. Only for `named`. */
  of(kind: string): this;
  /**
   * Enqueues only those names that no object of the kind has in the cache. If the object is deleted later, a mapping of
   * its own watch must enqueue it. Only for `named`.
   */
  missing(): this;
  /**
   * Enqueues only those selecting or named objects whose field at `path` has this value. If the field gets the value
   * later, a mapping of the object's own watch must enqueue it.
   */
  whose(path: string, value: string): this;
  /** Enqueues in this queue instead of the primary one. */
  queue(name: string): this;
  /** Enqueues after a delay. */
  after(delayMs: number): this;
  toJSON(): { to: string; [option: string]: unknown };
}
