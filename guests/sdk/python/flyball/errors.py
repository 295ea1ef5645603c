"""Errors: what the API server or the host answered, and failures that no retry can resolve."""

from __future__ import annotations


class ApiError(Exception):
    """An answer of the API server or the host that is no success. `of` returns the subclass for its reason."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        effect: str = "none",
        retry_after: float | None = None,
    ):
        super().__init__(status, reason, message)
        #: The HTTP status, never 0.
        self.status = status
        #: The API's reason, such as `NotFound`, or one of the host's, such as `Denied`.
        self.reason = reason
        #: A sentence for people.
        self.message = message
        #: The possible effect of the call: with `none` and `refused` nothing has changed, with `unknown` the call may
        #: have taken effect.
        self.effect = effect
        #: Seconds that the server asks to wait before the next try.
        self.retry_after = retry_after

    @staticmethod
    def of(
        status: int,
        reason: str,
        message: str,
        effect: str = "none",
        retry_after: float | None = None,
    ) -> ApiError:
        """Returns the error of the class that fits the reason."""
        return _BY_REASON.get(reason, ApiError)(status, reason, message, effect, retry_after)

    def __str__(self) -> str:
        return f"{self.message} ({self.status} {self.reason})"

    def is_not_found(self) -> bool:
        """Whether there is no such object. False if the server serves no such kind."""
        return self.reason == "NotFound"

    def is_already_exists(self) -> bool:
        """Whether an object of this name exists already."""
        return self.reason == "AlreadyExists"

    def is_conflict(self) -> bool:
        """Whether the object has changed since it was read, or a precondition failed."""
        return self.reason == "Conflict"

    def is_forbidden(self) -> bool:
        """Whether the API server's access control refused the call."""
        return self.reason == "Forbidden"

    def is_denied(self) -> bool:
        """Whether the plugin's policy does not grant the call."""
        return self.reason == "Denied"

    def is_invalid(self) -> bool:
        """Whether an argument or the object was refused as malformed."""
        return self.reason in ("Invalid", "BadRequest")

    def is_unknown_kind(self) -> bool:
        """Whether the server serves no such kind."""
        return self.reason == "UnknownKind"

    def is_namespace_terminating(self) -> bool:
        """Whether an object was refused because its namespace is being deleted. A controller can ignore that."""
        return self.reason == "NamespaceTerminating"

    def is_skipped(self) -> bool:
        """Whether the write was not started because an earlier one of its batch failed."""
        return self.reason == "Skipped"

    def is_timeout(self) -> bool:
        """Whether no complete answer came."""
        return self.reason == "Timeout"


class NotFoundError(ApiError):
    """There is no such object."""


class AlreadyExistsError(ApiError):
    """An object of this name exists already."""


class ConflictError(ApiError):
    """The object has changed since it was read, or a precondition failed."""


class DeniedError(ApiError):
    """The plugin's policy does not grant the call."""


_BY_REASON = {
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Denied": DeniedError,
}


class TerminalError(Exception):
    """A failure that no retry can resolve. The host reports it and does not retry until something changes."""
