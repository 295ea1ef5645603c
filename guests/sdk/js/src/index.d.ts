export * from "./objects.js";
export {
  ApiError, ReconcileError, TerminalError, isAlreadyExists, isConflict, isDenied, isForbidden, isFull, isInvalid,
  isNamespaceTerminating, isNotFound, isSkipped, isTimeout, isTooManyRequests, isUnknownKind, mayHaveTakenEffect,
} from "./errors.js";
export type { Effect, ErrorRecord } from "./errors.js";
export * from "./conditions.js";
export { matchesSelector, selectorText } from "./labels.js";
export type { LabelRequirement, LabelSelector, Selector } from "./labels.js";
export { describe, watch, watchDiscovered, Description, Mapping, Watch } from "./describe.js";
export type {
  Change, DeltaType, DescriptionDocument, Discovered, Import, QueueDocument, QueueSettings, Verb, WatchDocument,
} from "./describe.js";
export { Host } from "./host.js";
export type { Catalogue, ObjectReference, Query, ServedKind, StatusOf, World } from "./host.js";
export { parseReference, referenceText, requeueAfter } from "./controller.js";
export type { Controller, Delta, Outcome, Request, RoutedKey } from "./controller.js";
export type { Batch, DeleteOptions, ObjectOrKey, Result, WriteOptions } from "./batch.js";
export type { Live, LiveList, LiveQuery, ReadBatch } from "./live.js";
export type {
  CertificateTemplate, EventOptions, KeyUsage, Level, Log, Memo, Metrics, Queue, Signer,
} from "./local.js";
