import type { Result } from "./batch.js";
import type { Selector } from "./labels.js";
import type { AnyObject, Key, Kind } from "./objects.js";

/** The API's parameters of a list, the namespace (all if it is left out), and the paths of each item's fields (all). */
export interface LiveQuery {
  namespace?: string;
  fields?: string[];
  labelSelector?: Selector;
  fieldSelector?: string;
  limit?: number;
  continue?: string;
  resourceVersion?: string;
  resourceVersionMatch?: string;
}

/** The API's list object. */
export interface LiveList<T = AnyObject> {
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  items: T[];
}

/** Live reads, for cases in which the cache is not enough. They need the permissions `get` and `list`. */
export class Live {
  constructor(reader: any);
  /** Reads an object; `undefined` if it does not exist. `fields` narrows the result. */
  get<T = AnyObject>(kind: Kind<T> | string, key: Key, options?: { fields?: string[] }): T | undefined;
  /** Returns one page of a list. */
  list<T = AnyObject>(kind: Kind<T> | string, query?: LiveQuery): LiveList<T>;
  /** Iterates over the objects of a list, with at most one page of them in memory. */
  each<T = AnyObject>(kind: Kind<T> | string, query?: Omit<LiveQuery, "continue">): Generator<T, void, undefined>;
  /** Returns the response to a GET of a path, such as `/apis/metrics.k8s.io/v1beta1/pods`. Needs the import `raw`. */
  raw<T = any>(path: string): T;
  /** A batch of reads that the host runs concurrently. */
  batch(): ReadBatch;
}

export class ReadBatch {
  constructor(reader: any);
  get(kind: string, key: Key, options?: { fields?: string[] }): this;
  list(kind: string, query?: LiveQuery): this;
  raw(path: string): this;
  /** Runs the reads. Returns one result per read, in the order in which they were added. */
  run(): Result<any>[];
}
