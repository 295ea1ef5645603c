"""Handles of the host for queues, metrics, the memo and signing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .controller import Duration, Key, dumps, millis

if TYPE_CHECKING:
    from ._imports import Imports


@dataclass(frozen=True)
class Queue:
    """The plugin's workqueues: `host.queue`. Without a name, the primary one."""

    _imports: Imports

    def add(self, key: Key | str, queue: str = "") -> None:
        """Enqueues a key."""
        self._imports.queue_add(queue, str(key))

    def add_after(self, key: Key | str, delay: Duration, queue: str = "") -> None:
        """Enqueues a key after a delay. If it is pending several times, the earliest time applies."""
        self._imports.queue_add_after(queue, str(key), millis(delay))

    def forget(self, key: Key | str, queue: str = "") -> None:
        """Resets the backoff of a key."""
        self._imports.queue_forget(queue, str(key))

    def requeues(self, key: Key | str, queue: str = "") -> int:
        """Returns the number of retries of a key since it last succeeded."""
        return self._imports.queue_requeues(queue, str(key))


@dataclass(frozen=True)
class Metrics:
    """The plugin's metrics: `host.metrics`. The labels are the values, in the order of the declared names."""

    _imports: Imports

    def add(self, name: str, *labels: str, value: float = 1) -> None:
        """Adds to a counter."""
        self._imports.metrics("add", name, [*labels], value)

    def set(self, name: str, *labels: str, value: float) -> None:
        """Sets a gauge, or the part of the key that is being reconciled in a sum."""
        self._imports.metrics("set", name, [*labels], value)

    def observe(self, name: str, *labels: str, value: float) -> None:
        """Observes a value in a histogram."""
        self._imports.metrics("observe", name, [*labels], value)


@dataclass(frozen=True)
class Memo:
    """The plugin's memo: `host.memo`. Values are JSON. The host may empty it between any two calls, so it holds only what
    can be computed again."""

    _imports: Imports

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key."""
        return self.entry(key, default)[0]

    def entry(self, key: str, default: Any = None) -> tuple[Any, int]:
        """Returns the value of a key and its version, which is 0 if there is none."""
        entry = self._imports.memo_get(key)
        return (default, 0) if entry is None else (json.loads(entry[0]), entry[1])

    def put(self, key: str, value: Any, object_uid: str = "", ttl: Duration = 0, version: int | None = None) -> int:
        """Stores a value until the object of this UID is deleted or this time has passed, and returns its version. With
        `version`, fails with a ConflictError if the entry has another one."""
        if version is None:
            version = self.entry(key)[1]
        return self._imports.memo_put(key, version, dumps(value), object_uid, millis(ttl))

    def remove(self, key: str) -> None:
        """Removes a key."""
        self._imports.memo_remove(key)


@dataclass
class CertificateTemplate:
    """The content of a certificate. Exactly one of `public_key` and `request` is given, in DER."""

    not_before: datetime
    not_after: datetime
    #: A SubjectPublicKeyInfo. The caller has checked that the subject holds the private key.
    public_key: bytes = b""
    #: A PKCS#10 request. The host checks its signature, and takes nothing from it but the public key.
    request: bytes = b""
    #: The subject's relative names, in order; each is a list of pairs of an object identifier and a value.
    subject: list[list[tuple[str, str]]] = field(default_factory=list)
    dns_names: list[str] = field(default_factory=list)
    email_addresses: list[str] = field(default_factory=list)
    ip_addresses: list[str] = field(default_factory=list)
    uris: list[str] = field(default_factory=list)
    #: Names such as `digital-signature` and `key-encipherment`.
    key_usages: list[str] = field(default_factory=list)
    #: Object identifiers: `1.3.6.1.5.5.7.3.2` is client authentication.
    extended_key_usages: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Signer:
    """Signs with keys of the host, which the operator names: `host.signer`. Needs the import `signer`."""

    _imports: Imports

    def sign_jwt(self, key: str, claims: dict[str, Any]) -> str:
        """Returns a JSON Web Token with these claims."""
        return self._imports.signer_sign_jwt(key, dumps(claims))

    def verify_jwt(self, key: str, token: str) -> dict[str, Any]:
        """Returns the claims of a token that this key signed. Does not check the claims, such as the expiry."""
        return json.loads(self._imports.signer_verify_jwt(key, token))

    def certificate_authority(self, signer: str) -> list[bytes]:
        """Returns the certificates of a signer's authority in DER. The first one is of the key that signs."""
        return self._imports.signer_certificate_authority(signer)

    def sign_certificate(self, signer: str, template: CertificateTemplate) -> bytes:
        """Returns a certificate in DER, signed by a signer's authority."""
        return self._imports.signer_sign_certificate(signer, template)
