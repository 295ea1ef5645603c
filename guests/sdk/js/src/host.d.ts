import type { Batch, DeleteOptions, ObjectOrKey, WriteOptions } from "./batch.js";
import type { Live } from "./live.js";
import type { AnyObject, Key, Kind, KubernetesObject, MergePatch, NewObject, ObjectMeta } from "./objects.js";
import type { EventOptions, Log, Memo, Metrics, Queue, Signer } from "./local.js";
import type { Selector } from "./labels.js";

/** Names an object of any kind. */
export interface ObjectReference {
  kind: string;
  /** Empty if the object is cluster-scoped. */
  namespace: string;
  name: string;
  /** Empty if it is unknown. */
  uid: string;
}

/** Selects cached objects of a kind. All conditions must hold. */
export interface Query {
  /** Only objects of this namespace. */
  namespace?: string;
  /** Only objects whose labels match. */
  labels?: Selector;
  /** Only objects with these values in declared indexes, by the indexes' names. */
  index?: Record<string, string>;
  /** Only the object with this UID. */
  uid?: string;
  /** Only objects that have an owner with this UID. */
  owner?: string;
  /** Only objects whose controller has this UID. */
  controller?: string;
  /** Only objects without a controller. */
  orphans?: boolean;
  /** Narrows the declared fields. */
  fields?: string[];
  /** Objects per page; by default as many as the plugin's limit on the size of a result allows. */
  pageSize?: number;
}

export interface ServedKind {
  kind: string;
  plural: string;
  namespaced: boolean;
  /** Whether this is the version that the server prefers. */
  preferred: boolean;
  verbs: string[];
  subresources: { name: string; verbs: string[] }[];
}

/** The kinds that the API server serves. */
export interface Catalogue {
  kinds: ServedKind[];
  /** Group versions whose discovery failed. */
  failures: { groupVersion: string; message: string }[];
}

/**
 * The functions of the host for a controller. Calls that the API server or the host refuses throw an ApiError.
 *
 * A plugin reads only the kinds that it watches and the fields that it declares. It sees its own writes.
 */
export class Host {
  constructor(world: World);
  /** The untyped imports of the world. */
  readonly world: World;
  /** Live reads from the API server. */
  readonly live: Live;
  /** The host's log. `console` writes to it too. */
  readonly log: Log;
  /** The plugin's workqueues. */
  readonly queue: Queue;
  /** The plugin's own metrics. */
  readonly metrics: Metrics;
  /** The plugin's memo. */
  readonly memo: Memo;
  /** Signing with keys of the host. Needs the import `signer`. */
  readonly signer: Signer;

  /** Reads an object from the cache; `undefined` if it does not exist. `fields` narrows the declared fields. */
  get<T = AnyObject>(kind: Kind<T> | string, key: Partial<Key> & { name: string }, options?: { fields?: string[] }): T | undefined;
  /** Returns the cached objects that match, in order of namespace and name. */
  list<T = AnyObject>(kind: Kind<T> | string, query?: Query): T[];
  /** Iterates over the cached objects that match, with at most one page of them in memory. */
  each<T = AnyObject>(kind: Kind<T> | string, query?: Query): Generator<T, void, undefined>;
  /** Returns a row of each cached object that matches: the values at these paths. */
  rows<R extends unknown[] = any[]>(kind: string, columns: string[], query?: Omit<Query, "fields">): R[];
  /** Returns the number of cached objects that match. */
  count(kind: string, query?: Omit<Query, "fields" | "pageSize">): number;
  /** Whether the deletion of this object was observed; false means unknown. */
  deletionObserved(object: ObjectReference): boolean;
  /** Returns the kinds that the API server serves, at most one second old. Needs the import `discovery`. */
  kinds(): Catalogue;

  /** A batch of writes that the host runs concurrently. */
  batch(): Batch;
  /** Creates an object in the namespace of its metadata. Returns the fields that the options ask for. */
  create<T = AnyObject>(kind: Kind<T> | string, object: NewObject<T>, options?: WriteOptions): T | undefined;
  /** Creates a subresource of an object, such as an eviction. */
  createOn(kind: string, key: Key, subresource: string, body: object, options?: WriteOptions): AnyObject | undefined;
  /** Updates an object by a JSON merge patch. Fails with `Conflict` if it has changed since it was read. */
  update<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, change: MergePatch<T>, options?: WriteOptions & { subresource?: string }): T | undefined;
  /** Replaces the whole status of an object. Fails with `Conflict` if the object has changed since it was read. */
  updateStatus<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, status: StatusOf<T>, options?: WriteOptions & { metadata?: MergePatch<ObjectMeta> }): T | undefined;
  /** Patches an object in any version. */
  patch<T = AnyObject>(kind: Kind<T> | string, object: ObjectOrKey, patchType: "json" | "merge" | "strategic", patch: object, options?: WriteOptions & { subresource?: string }): T | undefined;
  /** Applies an object on the server side. Creates it if it does not exist. */
  apply<T = AnyObject>(kind: Kind<T> | string, object: NewObject<Partial<T>>, options: WriteOptions & { fieldManager: string; force?: boolean; subresource?: string }): T | undefined;
  /** Deletes an object. If it was read, its UID is a precondition. */
  delete(kind: string, object: ObjectOrKey, options?: DeleteOptions): AnyObject | undefined;
  /** Deletes all objects of a kind in a namespace that match both selectors. */
  deleteCollection(kind: string, query: { namespace?: string; labelSelector?: string; fieldSelector?: string }, options?: DeleteOptions): AnyObject | undefined;
  /** Appends a finalizer. Fails with `Conflict` if the object has changed since it was read. */
  addFinalizer<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, finalizer: string, options?: WriteOptions): T | undefined;
  /** Removes a finalizer and keeps others. Fails with `Conflict` if the object has changed since it was read. */
  removeFinalizer<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, finalizer: string, options?: WriteOptions): T | undefined;

  /** Emits an event about an object. Never fails or blocks. */
  emit(kind: string, about: KubernetesObject, type: "Normal" | "Warning", reason: string, message: string, options?: EventOptions): void;
  /** The current time. */
  now(): Date;
  /** Random bytes, for names and jitter; never for cryptographic keys. */
  random(count: number): Uint8Array;
  /** The operator's value of a configuration key, or else its declared default. */
  config(key: string): string | undefined;
  /** The number in a configuration key; `otherwise` if it has no value. Throws a TerminalError if it is invalid. */
  configNumber(key: string, otherwise: number, range?: { min?: number; max?: number }): number;
  /**
   * The milliseconds of a duration such as `1m30s`; `otherwiseMs` if it has no value. Throws a TerminalError if it is
   * invalid.
   */
  configDuration(key: string, otherwiseMs: number): number;
  /** Whether a declared feature gate of Kubernetes is on. */
  featureEnabled(name: string): boolean;
}

/** The type of an object's status. */
export type StatusOf<T> = T extends { status?: infer S } ? NonNullable<S> : object;

/** The world's imports, as the bindings have them: `wit/world.wit` with names in camelCase. */
export interface World {
  lister: any;
  reader: any;
  discovery: any;
  writer: any;
  events: any;
  queue: any;
  clock: any;
  random: any;
  log: any;
  metrics: any;
  config: any;
  memo: any;
  signer: any;
}
