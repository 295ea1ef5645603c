import type { ApiError } from "./errors.js";
import type { StatusOf } from "./host.js";
import type { AnyObject, Key, Kind, KubernetesObject, MergePatch, NewObject, ObjectMeta } from "./objects.js";

/** The API's options of a write, and the paths of the fields to return: `metadata`, or `.` for all. */
export interface WriteOptions {
  returns?: string[];
  fieldManager?: string;
  dryRun?: string[];
  fieldValidation?: "Ignore" | "Warn" | "Strict";
}

/** The API's DeleteOptions. */
export interface DeleteOptions extends WriteOptions {
  propagationPolicy?: "Background" | "Foreground" | "Orphan";
  gracePeriodSeconds?: number;
  preconditions?: { uid?: string; resourceVersion?: string };
}

/** An object that was read, or the key of one. */
export type ObjectOrKey = Key | { metadata: Partial<ObjectMeta> };

/** The result of one write or read of a batch. */
export type Result<T = AnyObject | undefined> = { ok: true; value: T } | { ok: false; error: ApiError };

/**
 * Writes that the host runs concurrently. Adding one makes no call. `Host` has the same functions for single writes.
 */
export class Batch {
  constructor(writer: any);
  /** The number of writes that were added. */
  readonly length: number;
  create<T = AnyObject>(kind: Kind<T> | string, object: NewObject<T>, options?: WriteOptions): this;
  createOn(kind: string, key: Key, subresource: string, body: object, options?: WriteOptions): this;
  update<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, change: MergePatch<T>, options?: WriteOptions & { subresource?: string }): this;
  updateStatus<T = AnyObject>(kind: Kind<T> | string, object: KubernetesObject, status: StatusOf<T>, options?: WriteOptions & { metadata?: MergePatch<ObjectMeta> }): this;
  patch(kind: string, object: ObjectOrKey, patchType: "json" | "merge" | "strategic" | "apply", patch: object, options?: WriteOptions & { force?: boolean; subresource?: string }): this;
  apply<T = AnyObject>(kind: Kind<T> | string, object: NewObject<Partial<T>>, options: WriteOptions & { fieldManager: string; force?: boolean; subresource?: string }): this;
  delete(kind: string, object: ObjectOrKey, options?: DeleteOptions): this;
  deleteCollection(kind: string, query: { namespace?: string; labelSelector?: string; fieldSelector?: string }, options?: DeleteOptions): this;
  /**
   * Starts with this many writes at once, and doubles the number after each round without an error. After a round with
   * an error no further one is started; the remaining writes fail with `Skipped`.
   */
  slowStart(initial: number): this;
  /** Starts no write after one has failed. The remaining writes fail with `Skipped`. */
  stopOnError(): this;
  /** Runs the writes. Returns one result per write, in the order in which they were added. */
  run(): Result[];
}
