// The errors of a reconcile, and predicates on them.

/** The error of a call: the API server's response, or the host's. */
export class ApiError extends Error {
  constructor({ status, reason, message, effect, retryAfterMs }) {
    super(`${message} (${status} ${reason})`);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
    this.detail = message;
    this.effect = effect;
    this.retryAfterMs = retryAfterMs ?? undefined;
  }
}

/** A failure that the controller expects. The key is retried with backoff. */
export class ReconcileError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "ReconcileError";
  }
}

/** A failure that no retry can resolve. */
export class TerminalError extends ReconcileError {
  constructor(message, options) {
    super(message, options);
    this.name = "TerminalError";
  }
}

const hasReason = (error, ...reasons) => error instanceof ApiError && reasons.includes(error.reason);

/** Whether the object, or something else that the call names, does not exist. */
export const isNotFound = (error) => error instanceof ApiError && error.status === 404 && error.reason !== "UnknownKind";
/** Whether the API server has an object of this name. */
export const isAlreadyExists = (error) => hasReason(error, "AlreadyExists");
/** Whether the object has changed since it was read. */
export const isConflict = (error) => hasReason(error, "Conflict");
/** Whether the API server refused an object as invalid, or the host an argument. */
export const isInvalid = (error) => hasReason(error, "Invalid");
/** Whether the API server's RBAC or admission refused the call. */
export const isForbidden = (error) => hasReason(error, "Forbidden");
/** Whether the plugin's policy does not grant the call. */
export const isDenied = (error) => hasReason(error, "Denied");
/** Whether the server does not serve the kind. */
export const isUnknownKind = (error) => hasReason(error, "UnknownKind");
/** Whether the write was refused because its namespace is being deleted. A controller can ignore that. */
export const isNamespaceTerminating = (error) => hasReason(error, "NamespaceTerminating");
/** Whether a limit of the plugin is reached. */
export const isFull = (error) => hasReason(error, "Full");
/** Whether the write was not started, because an earlier one of its batch failed. */
export const isSkipped = (error) => hasReason(error, "Skipped");
/** Whether no complete response came in time. */
export const isTimeout = (error) => hasReason(error, "Timeout");
/** Whether the server asks to try again later. */
export const isTooManyRequests = (error) => error instanceof ApiError && error.status === 429;
/** Whether the call may have taken effect although it failed. */
export const mayHaveTakenEffect = (error) => error instanceof ApiError && error.effect === "unknown";

/** Returns an error of the world as an `ApiError`, and any other one as it is. */
export function lifted(error) {
  const payload = error?.payload;
  return payload !== null && typeof payload === "object" && "reason" in payload ? new ApiError(payload) : error;
}

/** Calls a function of the world, and throws its error as an `ApiError`. */
export function call(run) {
  try {
    return run();
  } catch (error) {
    throw lifted(error);
  }
}
