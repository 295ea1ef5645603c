import type { Description, DescriptionDocument, DeltaType } from "./describe.js";
import type { Host, ObjectReference } from "./host.js";
import type { AnyObject, Key } from "./objects.js";

/**
 * A controller. Its functions must not depend on state between calls: the host runs many instances at once, and creates
 * and drops them at any time.
 */
export interface Controller {
  /** Describes the controller's watches and needs. Only the configuration and the log of the host are available. */
  describe(host: Host): Description | DescriptionDocument;
  /**
   * Brings the cluster to the state that the key's object asks for. Returns nothing if the object is as it should be.
   *
   * An exception is a failure, and the key is retried with backoff; a TerminalError is not retried until something
   * changes.
   */
  reconcile(host: Host, request: Request): Outcome | void;
  /** Turns changes into keys, for watches with `Mapping.route()`. */
  route?(host: Host, deltas: Delta[]): RoutedKey[];
}

/** A key to reconcile. */
export interface Request {
  /** The queue that the key came from. */
  queue: string;
  key: Key;
  /** The key as it was enqueued. */
  text: string;
  /** Number of failures of this key since it last succeeded. */
  attempt: number;
}

/** The outcome of a reconcile that succeeded. */
export interface Outcome {
  requeueAfterMs?: number;
}

/** A change of an object, reduced to the fields that the watch declares. */
export interface Delta<T = AnyObject> {
  /** The watch's kind; for a discovery watch, the object's kind. */
  watch: string;
  type: DeltaType;
  /** The object before the change. */
  old?: T;
  /** The object after the change. */
  new?: T;
  /** Whether the delta belongs to the initial list of the watch. */
  initial: boolean;
}

/** A key that `route` enqueues. */
export interface RoutedKey {
  key: Key | string;
  /** The primary queue, if it is left out. */
  queue?: string;
  delayMs?: number;
}

/** The outcome of a reconcile that succeeded; the key is reconciled again after this time. */
export function requeueAfter(ms: number): Outcome;
/**
 * Parses a key that the mappings `reference`, `dependents` and `ownerReferences` enqueue.
 *
 * @throws TerminalError if the text isn't a reference.
 */
export function parseReference(text: string): ObjectReference;
/** Returns the key of a reference. */
export function referenceText(reference: ObjectReference): string;
