"""The world's imports on a cluster: each is a call to the server."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from typing import Any, Sequence

from .._imports import Page, Result
from ..controller import dumps
from ..host import Catalogue, ServedKind
from ..local import CertificateTemplate
from ..writes import Write
from .server import error_of, server

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class World:
    """The imports."""

    def __init__(self, number: int | None = None) -> None:
        """The imports of a new cluster, or of the cluster or recorded call with this number."""
        self._cluster = server().call(0, "new") if number is None else number

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Makes a call on this cluster."""
        return server().call(self._cluster, name, **arguments)

    def lister_get(self, kind: str, namespace: str, name: str, fields: list[str]) -> bytes | None:
        found = self.call("lister.get", kind=kind, namespace=namespace, name=name, fields=fields)
        return None if found is None else dumps(found)

    def lister_list(self, kind: str, namespace: str, conditions: Any, projection: Any, limit: int) -> Page:
        shape, paths = projection
        lowered = shape if shape == "all" else {shape: paths}
        query = _query(kind, namespace, conditions)
        return self._page(self.call("lister.list", query=query, projection=lowered, limit=limit))

    def _page(self, page: dict[str, Any]) -> Page:
        items, rest = dumps(page["items"]), page["rest"]
        return (items, None if rest is None else lambda limit: self._page(self.call("lister.next", rest=rest, limit=limit)))

    def lister_count(self, kind: str, namespace: str, conditions: list[tuple[str, str]]) -> int:
        return self.call("lister.count", query=_query(kind, namespace, conditions))

    def lister_deletion_observed(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return self.call("lister.deletion-observed", object=_reference(kind, namespace, name, uid))

    def reader_run(self, reads: Sequence[tuple]) -> list[Result]:
        names = {
            "get": ("verb", "kind", "namespace", "name", "fields"),
            "list": ("verb", "kind", "namespace", "parameters", "fields"),
            "raw": ("verb", "path"),
        }
        return _results(self.call("reader.run", reads=[dict(zip(names[read[0]], read)) for read in reads]))

    def discovery_kinds(self) -> Catalogue:
        found = self.call("discovery.kinds")
        kinds = [ServedKind(**{**kind, "subresources": dict(kind["subresources"])}) for kind in found["kinds"]]
        return Catalogue(kinds, dict(found["failures"]))

    def writer_run(self, writes: list[Write], slow_start: int, stop_on_error: bool) -> list[Result]:
        sent = [_write(write) for write in writes]
        return _results(self.call("writer.run", writes=sent, slowStart=slow_start, stopOnError=stop_on_error))

    def events_emit(self, about: Any, type: str, reason: str, message: str, options: dict[str, Any]) -> None:
        about = _reference(*about)
        self.call("events.emit", about=about, type=type, reason=reason, message=message, options=options)

    def queue_add(self, queue: str, key: str) -> None:
        self.queue_add_after(queue, key, 0)

    def queue_add_after(self, queue: str, key: str, delay_ms: int) -> None:
        self.call("queue.add", queue=queue, key=key, delayMs=delay_ms)

    def queue_forget(self, queue: str, key: str) -> None:
        self.call("queue.forget", queue=queue, key=key)

    def queue_requeues(self, queue: str, key: str) -> int:
        return self.call("queue.requeues", queue=queue, key=key)

    def clock_now(self) -> datetime:
        now = self.call("clock.now")
        return _EPOCH + timedelta(seconds=now["seconds"], microseconds=now["nanoseconds"] // 1000)

    def random_bytes(self, count: int) -> bytes:
        return base64.b64decode(self.call("random.bytes", count=count))

    def log_write(self, level: str, message: str, fields: dict[str, str]) -> None:
        self.call("log.write", level=level, message=message, fields=[*fields.items()])

    def log_enabled(self, level: str) -> bool:
        return True

    def metrics(self, operation: str, name: str, labels: list[str], value: float) -> None:
        self.call("metrics.record", operation=operation, name=name, labels=labels, value=value)

    def config_get(self, key: str) -> str | None:
        return self.call("config.get", key=key)

    def memo_get(self, key: str) -> tuple[bytes, int] | None:
        entry = self.call("memo.get", key=key)
        return None if entry is None else (base64.b64decode(entry["value"]), entry["version"])

    def memo_put(self, key: str, expected: int, value: bytes, object_uid: str, ttl_ms: int) -> int:
        return self.call("memo.put", key=key, expected=expected, value=_text(value), objectUid=object_uid, ttlMs=ttl_ms)

    def memo_remove(self, key: str) -> None:
        self.call("memo.remove", key=key)

    def signer_sign_jwt(self, key: str, claims: bytes) -> str:
        return self.call("signer.sign-jwt", key=key, claims=json.loads(claims))

    def signer_verify_jwt(self, key: str, token: str) -> bytes:
        return dumps(self.call("signer.verify-jwt", key=key, token=token))

    def signer_certificate_authority(self, signer: str) -> list[bytes]:
        return [base64.b64decode(one) for one in self.call("signer.certificate-authority", signer=signer)]

    def signer_sign_certificate(self, signer: str, template: CertificateTemplate) -> bytes:
        return base64.b64decode(self.call("signer.sign-certificate", signer=signer, template=_template(template)))


def _query(kind: str, namespace: str, conditions: Any) -> dict[str, Any]:
    return {"kind": kind, "namespace": namespace, "conditions": conditions}


def _reference(kind: str, namespace: str, name: str, uid: str) -> dict[str, str]:
    return {"kind": kind, "namespace": namespace, "name": name, "uid": uid}


def _results(replies: list[dict[str, Any]]) -> list[Result]:
    return [error_of(one["error"]) if "error" in one else _document(one["ok"]) for one in replies]


def _document(value: Any) -> bytes:
    return b"" if value is None else dumps(value)


def _write(write: Write) -> dict[str, Any]:
    return {
        "verb": write.verb.replace("_", "-"),
        "kind": write.kind,
        "namespace": write.namespace,
        "name": write.name,
        "subresource": write.subresource,
        "resourceVersion": write.resource_version,
        "body": write.body,
        "metadata": write.metadata,
        "patchType": write.patch_type,
        "labelSelector": write.label_selector,
        "fieldSelector": write.field_selector,
        "options": write.options,
        "returns": write.returns,
    }


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def instant(time: datetime) -> dict[str, int]:
    """Returns a time as a call has it."""
    since = time - _EPOCH
    return {"seconds": since.days * 86400 + since.seconds, "nanoseconds": since.microseconds * 1000}


#: The purposes of a key, in the order of X.509's bits.
_KEY_USAGES = (
    "digital-signature",
    "content-commitment",
    "key-encipherment",
    "data-encipherment",
    "key-agreement",
    "cert-sign",
    "crl-sign",
    "encipher-only",
    "decipher-only",
)


def _template(template: CertificateTemplate) -> dict[str, Any]:
    key = {"request": _text(template.request)} if template.request else {"publicKey": _text(template.public_key)}
    return {
        "key": key,
        "subject": template.subject,
        "dnsNames": template.dns_names,
        "emailAddresses": template.email_addresses,
        "ipAddresses": template.ip_addresses,
        "uris": template.uris,
        "keyUsages": sum(1 << _KEY_USAGES.index(name) for name in template.key_usages),
        "extendedKeyUsages": template.extended_key_usages,
        "notBefore": instant(template.not_before),
        "notAfter": instant(template.not_after),
    }
