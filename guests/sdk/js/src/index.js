// The SDK for controllers written in JavaScript or TypeScript.

export * from "./objects.js";
export {
  ApiError, ReconcileError, TerminalError, isAlreadyExists, isConflict, isDenied, isForbidden, isFull, isInvalid,
  isNamespaceTerminating, isNotFound, isSkipped, isTimeout, isTooManyRequests, isUnknownKind, mayHaveTakenEffect,
} from "./errors.js";
export * from "./conditions.js";
export { matchesSelector, selectorText } from "./labels.js";
export { describe, watch, watchDiscovered, Description, Mapping, Watch } from "./describe.js";
export { Host } from "./host.js";
export { parseReference, referenceText, requeueAfter } from "./controller.js";
