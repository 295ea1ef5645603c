"""The world's imports as Python sees them. `_sandbox` calls the host; `testing` answers in memory. JSON crosses as bytes, and
functions raise ApiError."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, Sequence, Union

from .errors import ApiError

if TYPE_CHECKING:
    from .host import Catalogue
    from .local import CertificateTemplate
    from .writes import Write

#: One result of a batch.
Result = Union[bytes, ApiError]
#: A page: a JSON array, and a function that returns the next page with at most the given number of objects.
Page = tuple[bytes, Optional[Callable[[int], "Page"]]]


class Imports(Protocol):
    """The functions of the world."""

    def lister_get(self, kind: str, namespace: str, name: str, fields: list[str]) -> bytes | None: ...

    #: The projection is `all`, `fields` or `columns` with paths.
    def lister_list(
        self,
        kind: str,
        namespace: str,
        conditions: list[tuple[str, str]],
        projection: tuple[str, list[str]],
        limit: int,
    ) -> Page: ...

    def lister_count(self, kind: str, namespace: str, conditions: list[tuple[str, str]]) -> int: ...

    def lister_deletion_observed(self, kind: str, namespace: str, name: str, uid: str) -> bool: ...

    #: A read is `("get", kind, namespace, name, fields)`, `("list", kind, namespace, parameters, fields)` or
    #: `("raw", path)`.
    def reader_run(self, reads: Sequence[tuple]) -> list[Result]: ...

    def discovery_kinds(self) -> Catalogue: ...

    def writer_run(self, writes: list[Write], slow_start: int, stop_on_error: bool) -> list[Result]: ...

    def events_emit(
        self, about: tuple[str, str, str, str], type: str, reason: str, message: str, options: dict[str, Any]
    ) -> None: ...

    def queue_add(self, queue: str, key: str) -> None: ...

    def queue_add_after(self, queue: str, key: str, delay_ms: int) -> None: ...

    def queue_forget(self, queue: str, key: str) -> None: ...

    def queue_requeues(self, queue: str, key: str) -> int: ...

    def clock_now(self) -> datetime: ...

    def random_bytes(self, count: int) -> bytes: ...

    #: The level is `trace`, `debug`, `info`, `warn` or `error`.
    def log_write(self, level: str, message: str, fields: dict[str, str]) -> None: ...

    def log_enabled(self, level: str) -> bool: ...

    #: The operation is `add`, `set` or `observe`.
    def metrics(self, operation: str, name: str, labels: list[str], value: float) -> None: ...

    def config_get(self, key: str) -> str | None: ...

    def memo_get(self, key: str) -> tuple[bytes, int] | None: ...

    def memo_put(self, key: str, expected: int, value: bytes, object_uid: str, ttl_ms: int) -> int: ...

    def memo_remove(self, key: str) -> None: ...

    def signer_sign_jwt(self, key: str, claims: bytes) -> str: ...

    def signer_verify_jwt(self, key: str, token: str) -> bytes: ...

    def signer_certificate_authority(self, signer: str) -> list[bytes]: ...

    def signer_sign_certificate(self, signer: str, template: CertificateTemplate) -> bytes: ...
