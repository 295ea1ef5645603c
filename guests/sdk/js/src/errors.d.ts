/** The possible effect of a failed call: none; none, because the API server refused the request; or unknown. */
export type Effect = "none" | "refused" | "unknown";

/** An error as the world has it. */
export interface ErrorRecord {
  status: number;
  reason: string;
  message: string;
  effect: Effect;
  retryAfterMs?: number | null;
}

/** The error of a call: the API server's response, or the host's. `wit/types.wit` lists the host's reasons. */
export class ApiError extends Error {
  constructor(record: ErrorRecord);
  /** The HTTP status. */
  readonly status: number;
  /** The API's reason, such as `NotFound`, or the host's. */
  readonly reason: string;
  /** The message without status and reason. */
  readonly detail: string;
  readonly effect: Effect;
  /** How long the server asks to wait before the next try. */
  readonly retryAfterMs: number | undefined;
}

/** A failure that the controller expects. The key is retried with backoff; the log gets no stack trace. */
export class ReconcileError extends Error {
  constructor(message: string, options?: { cause?: unknown });
}

/** A failure that no retry can resolve. The host reports it, and does not retry until something changes. */
export class TerminalError extends ReconcileError {}

/** Whether the object, or something else that the call names, does not exist. */
export function isNotFound(error: unknown): error is ApiError;
/** Whether the API server has an object of this name. */
export function isAlreadyExists(error: unknown): error is ApiError;
/** Whether the object has changed since it was read. */
export function isConflict(error: unknown): error is ApiError;
/** Whether the API server refused an object as invalid, or the host an argument. */
export function isInvalid(error: unknown): error is ApiError;
/** Whether the API server's RBAC or admission refused the call. */
export function isForbidden(error: unknown): error is ApiError;
/** Whether the plugin's policy does not grant the call. */
export function isDenied(error: unknown): error is ApiError;
/** Whether the server does not serve the kind. */
export function isUnknownKind(error: unknown): error is ApiError;
/** Whether the write was refused because its namespace is being deleted. A controller can ignore that. */
export function isNamespaceTerminating(error: unknown): error is ApiError;
/** Whether a limit of the plugin is reached. */
export function isFull(error: unknown): error is ApiError;
/** Whether the write was not started, because an earlier one of its batch failed. */
export function isSkipped(error: unknown): error is ApiError;
/** Whether no complete response came in time. */
export function isTimeout(error: unknown): error is ApiError;
/** Whether the server asks to try again later. */
export function isTooManyRequests(error: unknown): error is ApiError;
/** Whether the call may have taken effect although it failed. */
export function mayHaveTakenEffect(error: unknown): error is ApiError;
