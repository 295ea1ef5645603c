// Errors as the world's bindings throw them.

const STATUSES = { Invalid: 400, Unauthorized: 401, Denied: 403, NotFound: 404, Conflict: 409, Skipped: 424 };

/** Returns an error of the host with this reason. */
export function failure(reason, message) {
  return thrown({ status: STATUSES[reason], reason, message, effect: "none" });
}

/** Returns an error of the API server. */
export function refusal(status, reason, message) {
  return thrown({ status, reason, message, effect: status < 500 ? "refused" : "unknown" });
}

/** Returns the error that the bindings throw for an error of the world. */
export function thrown(payload) {
  return Object.assign(new Error(payload.message), { payload });
}
