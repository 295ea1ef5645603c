import type { Controller, Delta, Outcome, RoutedKey } from "./controller.js";
import type { ApiError, ErrorRecord } from "./errors.js";
import type { Host, ObjectReference } from "./host.js";
import type { AnyObject, Key, Kind } from "./objects.js";
import type { Level } from "./local.js";

/** A write that reached the server. */
export interface Written {
  verb: "create" | "update" | "patch" | "delete" | "deletecollection";
  kind: string;
  /** Empty if the object is cluster-scoped. */
  namespace: string;
  /** The name, including one that the server generated. */
  name: string;
  subresource: string;
  /** The type, if the write is a patch. */
  patchType?: "json" | "merge" | "strategic" | "apply";
  /** The object, the change or the patch. */
  body: any;
  /** The API's options object. */
  options: Record<string, any>;
  /** The server's warnings, such as `unknown field "spec.txt"` for a field that it dropped. */
  warnings: string[];
  /** The error, if the write failed. */
  error?: ErrorRecord;
  /** The write as text: `create v1/Pod default/web-1`. */
  line: string;
}

export interface RecordedEvent {
  about: ObjectReference;
  type: "Normal" | "Warning";
  reason: string;
  message: string;
  options: { action?: string; related?: ObjectReference; annotations?: Record<string, string>; resourceVersion?: string; reportingController?: string; once?: boolean };
  /** The event as text: `Normal Created created pod web-1`. */
  line: string;
}

/**
 * Repeats the calls of a recording, which `flyball record` has written, in the test's process. Calls that were stopped at a
 * limit are left out, because nothing stops them here.
 *
 * Throws a TypeError where the controller asks or writes something else than it did then, or ends in another way; and if
 * the file is not a recording, or has no call to repeat.
 */
export function replay(controller: Controller, file: string): void;

/**
 * Repeats the calls of a recording as `replay` does, but those that failed must no longer fail: a regression test of a
 * fixed bug. Such a call must end well, or ask all that the failed call asked and then more, to which the recording has no
 * answer.
 */
export function replayFixed(controller: Controller, file: string): void;

/**
 * An API server in memory, with the host's other functions. Its clock starts at 2026-01-01T00:00:00Z and stands still;
 * a controller reads it with `host.now()`.
 *
 * The controller runs in the test's process. The cluster is in a process that this module starts: the program flyball,
 * which the variable FLYBALL names or which is on the PATH.
 *
 * The plugin's own description is enforced: it reads only what it declares, and writes only with the permissions that
 * it requests. The cache shows every write at once. The server supports resource versions, generations, finalizers,
 * graceful deletion, subresources, all patch types, and server-side apply with field managers and conflicts. Objects of
 * kinds that `define` defines are pruned, defaulted and validated by their schemas, except for rules in CEL; objects of
 * other kinds are neither checked nor defaulted.
 *
 * A key is an object with `namespace` and `name`, or a text such as `default/web`.
 */
export class Cluster {
  /** A cluster with these objects. `define` is a file for the function of this name, which is read first. */
  constructor(objects?: AnyObjectToPut[], options?: { define?: string });

  /**
   * Reads CustomResourceDefinitions from a file in YAML, such as the project's `crd.yaml`. From then on, objects of
   * their kinds are pruned, defaulted and validated as by the API server. A field that a write has and the schema lacks
   * is a warning in the log and in the line of the write. An object that the test puts must fit, and the fields that
   * the controller declares must be in the schema.
   */
  define(file: string): void;

  /**
   * Stores an object with `apiVersion` and `kind` verbatim. Absent fields that a server sets are filled in: the UID, the resource
   * version, the creation time, and for a custom resource the generation.
   */
  put(object: AnyObjectToPut): void;
  /** Makes live reads return this object while the cache has another one or none. */
  putLive(object: AnyObjectToPut): void;
  /** Makes live reads not find this object while the cache still has it. */
  removeLive(kind: string, key: Key | string): void;
  /** Changes an object as another client does. Its resource version changes and, with its spec, its generation. */
  edit<T = AnyObject>(kind: Kind<T> | string, key: Key | string, change: (object: T) => void): void;
  /** Deletes an object as another client does: with finalizers or a grace period, it only gets a deletion timestamp. */
  delete(kind: string, key: Key | string): void;
  /** Removes an object immediately. */
  remove(kind: string, key: Key | string): void;
  /**
   * Fails the `nth` call from now (1: the next one) with this verb and kind, such as `v1/Pod` or
   * `apps/v1/ReplicaSet/status`. The verb is the verb of a write (`patch` for a server-side apply), `get` or `list` for live
   * reads, `count`, `raw` with a path, or `discover` with an empty kind. Another verb is an error.
   */
  fail(verb: string, kind: string, error: ApiError, nth?: number): void;
  /**
   * Returns this object to the next create of its kind, which stores nothing: a SubjectAccessReview with its status.
   */
  answer(kind: string, answer: unknown): void;
  /** Limits writes and live reads to this many in each window of the cluster's clock. Others fail with 429. */
  limitRate(calls: number, windowMs: number): void;
  setNow(now: Date | string): void;
  /** Advances the clock. */
  advance(ms: number): void;
  /** Sets the operator's value of a configuration key. */
  setConfig(key: string, value: string): void;
  /** Sets the response to a raw GET of this path. */
  putRaw(path: string, answer: unknown): void;
  /** Adds a kind to the result of discovery. The first version of a group is the preferred one. */
  serve(kind: string, plural: string, options?: { namespaced?: boolean; verbs?: string[]; subresources?: { name: string; verbs: string[] }[] }): void;
  /** Adds a group version to the discovery failures. */
  failDiscovery(groupVersion: string, message: string): void;
  /** Makes the host report the deletion of this object as observed. */
  observeDeletion(object: ObjectReference): void;
  /** Adds a signing key. Its tokens are placeholders. */
  addKey(name: string): void;
  /** Adds an authority for a signer. Its certificates are placeholders. */
  addAuthority(signer: string): void;

  /** Returns a host without restrictions, for tests of single steps. */
  host(): Host;
  /** Reconciles a key under the plugin's description, and returns the outcome or throws the controller's error. */
  reconcile(controller: Controller, key: Key | string, options?: { queue?: string; attempt?: number }): Outcome;
  /** Routes deltas under the plugin's description. */
  route(controller: Controller, deltas: Delta[]): RoutedKey[];

  /** Returns an object. */
  object<T = AnyObject>(kind: Kind<T> | string, key: Key | string): T | undefined;
  /** Returns all objects of a kind, in order of namespace and name. */
  objects<T = AnyObject>(kind: Kind<T> | string): T[];
  /** Returns the writes since the last call of `writes` or `written`, including failed ones. */
  writes(): Written[];
  /** Returns the same as lines: `create v1/Pod default/web-1`. */
  written(): string[];
  /** Returns the live reads since the last call as lines: `list v1/Pod default`. */
  liveReads(): string[];
  /** Returns the events since the last call of `recordedEvents` or `events`. */
  recordedEvents(): RecordedEvent[];
  /** Returns the same as lines: `Normal Created created pod web-1`. */
  events(): string[];
  /** Returns the keys enqueued since the last call. */
  enqueued(): { queue: string; key: string; afterMs: number }[];
  /** Returns the lines written to `host.log` since the last call. */
  logged(): { level: Level; message: string; fields: Record<string, string> }[];
  /** Returns the metric operations since the last call. */
  metrics(): { operation: "add" | "set" | "observe"; name: string; labels: string[]; value: number }[];
  /** Returns all tokens signed so far. */
  signed(): { key: string; token: string; claims: any }[];
  /** Returns all certificates signed so far. */
  certificates(): { signer: string; template: any }[];
}

/** An object with `apiVersion` and `kind`. */
export interface AnyObjectToPut {
  apiVersion: string;
  kind: string;
  metadata: { name: string; [field: string]: any };
  [field: string]: any;
}

/** An error of the API server, for `Cluster.fail`. */
export function refusal(status: number, reason: string, message?: string): ApiError;
