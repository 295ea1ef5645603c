"""The world's imports, answered in memory under the description of the plugin."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Sequence

from .._imports import Page, Result
from ..controller import dumps
from ..errors import ApiError
from ..host import Catalogue
from ..services import CertificateTemplate
from ..views import getter
from ..writes import Write
from . import masks, selectors
from .records import Enqueued, Event, Logged, Metric, Written
from .store import Id, Store, refusal

_VERBS = {"update_status": "update", "delete_collection": "deletecollection"}


def _host_error(status: int, reason: str, message: str) -> ApiError:
    return ApiError.of(status, reason, message, "none")


class Fake:
    """The imports, and what they record."""

    def __init__(self) -> None:
        self.store = Store()
        #: The description that is enforced; None for no restrictions.
        self.description: dict[str, Any] | None = None
        #: What live reads return instead of the cache's objects.
        self.live: dict[Id, dict[str, Any] | None] = {}
        self.raw: dict[str, Any] = {}
        self.deleted: set[tuple[str, str, str, str]] = set()
        self.catalogue = Catalogue([], {})
        #: Lists of a verb, a kind, a number of calls that still succeed, and the error.
        self.faults: list[list[Any]] = []
        self.config: dict[str, str] = {}
        self.keys: set[str] = set()
        self.authorities: set[str] = set()
        self.writes: list[Written] = []
        self.live_reads: list[str] = []
        self.events: list[Event] = []
        self.enqueued: list[Enqueued] = []
        self.logs: list[Logged] = []
        self.measured: list[Metric] = []
        self._memo: dict[str, tuple[bytes, int, str, datetime | None]] = {}
        self._memo_version = 0
        self._random = random.Random(0)

    # Cached reads

    def lister_get(self, kind: str, namespace: str, name: str, fields: list[str]) -> bytes | None:
        watches = self._watches(kind)
        mask = self._mask(kind, fields)
        found = self.store.objects.get((kind, namespace, name))
        if found is None or not _in_scope(watches, found):
            return None
        return dumps(masks.prune(found, mask))

    def lister_list(self, kind: str, namespace: str, conditions: Any, projection: Any, limit: int) -> Page:
        shape, paths = projection
        found = self._matching(kind, namespace, conditions)
        mask = self._mask(kind, paths)
        if shape == "columns":
            getters = [getter(path) for path in paths]
            items: list[Any] = [[_column(get(one), path) for get, path in zip(getters, paths)] for one in found]
        else:
            kinds = ["apiVersion", "kind"] if kind == "*" else []
            items = [{**{name: one[name] for name in kinds}, **masks.prune(one, mask)} for one in found]
        return _page(items, limit)

    def lister_count(self, kind: str, namespace: str, conditions: list[tuple[str, str]]) -> int:
        return len(self._matching(kind, namespace, conditions))

    def lister_deletion_observed(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return (kind, namespace, name, uid) in self.deleted

    def _matching(self, kind: str, namespace: str, conditions: list[tuple[str, str]]) -> list[dict[str, Any]]:
        watches = self._watches(kind)
        matches = selectors.conditions(conditions, lambda name: self._index(kind, name))
        return [
            one
            for one in self.store.of_kind(kind)
            if namespace in ("", one["metadata"].get("namespace", "")) and _in_scope(watches, one) and matches(one)
        ]

    def _watches(self, kind: str) -> list[dict[str, Any]]:
        if self.description is None:
            return [{"kind": kind, "fields": ["."]}]
        watches = [
            watch
            for watch in self.description.get("watches", [])
            if watch.get("kind") == kind or ("discovered" in watch and kind not in watch["discovered"].get("except", []))
        ]
        if not watches:
            raise _host_error(403, "Denied", f"{kind} is not among the plugin's watches")
        return watches

    def _mask(self, kind: str, fields: list[str]) -> masks.Mask | None:
        """The mask of these fields, or of all declared ones if there are none."""
        paths = [path for watch in self._watches(kind) for path in watch.get("fields", [])]
        if any(watch.get("metadataOnly") or "discovered" in watch for watch in self._watches(kind)):
            paths.append("metadata")
        declared = masks.parse(paths)
        if not fields:
            return declared
        wanted = masks.parse(fields)
        if not masks.covers(declared, wanted):
            raise _host_error(403, "Denied", f"the plugin does not declare all of these fields of {kind}: {fields}")
        return wanted

    def _index(self, kind: str, name: str) -> str:
        for index in (self.description or {}).get("indexes", []):
            if (index["kind"], index["name"]) == (kind, name):
                return index["path"]
        raise _host_error(400, "Invalid", f"the plugin declares no index {name!r} over {kind}")

    # Live reads

    def reader_run(self, reads: Sequence[tuple]) -> list[Result]:
        return [self._catch(self._read, *read) for read in reads]

    def _catch(self, function: Any, *arguments: Any) -> Result:
        try:
            return function(*arguments)
        except ApiError as error:
            return error

    def _read(self, verb: str, kind: str, namespace: str = "", name: Any = "", fields: Any = ()) -> bytes:
        if verb == "raw":
            return self._read_raw(kind)
        target = name if verb == "get" else ""
        self.live_reads.append(f"{verb} {kind} {namespace}{'/' if namespace and target else ''}{target}".rstrip())
        self._admit(verb, kind, "")
        mask = masks.parse(fields) if fields else None
        if verb == "list":
            return self._read_list(kind, namespace, dict(name), mask)
        one = (kind, namespace, name)
        found = self.live[one] if one in self.live else self.store.objects.get(one)
        if found is None:
            raise refusal(404, "NotFound", f"{kind} {name!r} not found")
        return dumps(masks.prune(found, mask))

    def _read_raw(self, path: str) -> bytes:
        self.live_reads.append(f"raw {path}")
        if self.description is not None and "raw" not in self.description.get("imports", []):
            raise _host_error(403, "Denied", "the plugin does not ask for `raw`")
        self._fail_if_due("raw", path)
        if path not in self.raw:
            raise refusal(404, "NotFound", "the server could not find the requested resource")
        return dumps(self.raw[path])

    def _read_list(self, kind: str, namespace: str, parameters: dict[str, str], mask: Any) -> bytes:
        found = {**self.store.objects, **self.live}
        labels = selectors.labels(parameters.get("labelSelector", ""))
        fields = selectors.fields(parameters.get("fieldSelector", ""))
        items = [
            masks.prune(one, mask)
            for key, one in sorted(found.items(), key=lambda pair: pair[0])
            if one is not None and key[0] == kind and namespace in ("", key[1]) and labels(one) and fields(one)
        ]
        start = int(parameters.get("continue") or 0)
        end = start + (int(parameters.get("limit") or 0) or len(items))
        token = str(end) if end < len(items) else ""
        return dumps({"metadata": {"resourceVersion": "1", "continue": token}, "items": items[start:end]})

    def discovery_kinds(self) -> Catalogue:
        if self.description is not None and "discovery" not in self.description.get("imports", []):
            raise _host_error(403, "Denied", "the plugin does not ask for `discovery`")
        self._fail_if_due("discover", "")
        return self.catalogue

    # Writes

    def writer_run(self, writes: list[Write], slow_start: int, stop_on_error: bool) -> list[Result]:
        results: list[Result] = []
        size = 1 if stop_on_error else slow_start or len(writes)
        failed = False
        while len(results) < len(writes):
            for write in writes[len(results) : len(results) + size]:
                if failed and (stop_on_error or slow_start):
                    skipped = "not started: an earlier write of the batch failed"
                    results.append(_host_error(424, "Skipped", skipped))
                else:
                    results.append(self._catch(self._write, write))
            failed = any(isinstance(result, ApiError) for result in results)
            size *= 1 if stop_on_error else 2
        return results

    def _write(self, write: Write) -> bytes:
        # As bytes and back, as the body crosses into the host.
        write = replace(write, body=json.loads(dumps(write.body)))
        verb = _VERBS.get(write.verb, write.verb)
        subresource = "status" if write.verb == "update_status" else write.subresource
        name, error = write.name, None
        try:
            self._admit(verb, write.kind, subresource)
            if verb == "update" and self.description is not None:
                self._admit_base(write)
            result = self._run(write)
            name = name or (result or {}).get("metadata", {}).get("name", "")
        except ApiError as raised:
            error = raised
            name = name or ((write.body or {}).get("metadata") or {}).get("name", "")
            raise
        finally:
            body, options = write.body, write.options
            record = Written(verb, write.kind, write.namespace, name, subresource, body, options, error)
            self.writes.append(record)
        return dumps(masks.prune(result, masks.parse(write.returns))) if write.returns else b""

    def _run(self, write: Write) -> Any:
        manager = (self.description or {}).get("name", "test")
        if write.verb != "delete_collection":
            return self.store.run(write, manager)
        labels, fields = selectors.labels(write.label_selector), selectors.fields(write.field_selector)
        for one in self.store.of_kind(write.kind):
            meta = one["metadata"]
            if write.namespace in ("", meta.get("namespace", "")) and labels(one) and fields(one):
                below = Write.delete_name(write.kind, meta.get("namespace", ""), meta["name"])
                self.store.run(below, manager)
        return None

    def _admit(self, verb: str, kind: str, subresource: str) -> None:
        """Checks the permissions that the plugin requests, and raises a failure that is due."""
        if self.description is not None:
            group = kind.rpartition("/")[0].rpartition("/")[0]
            patterns = ("*", kind, f"{group}/*")
            granted = any(
                permission["kind"] in patterns
                and permission.get("subresource", "") == subresource
                and (verb in permission["verbs"] or "*" in permission["verbs"])
                for permission in self.description.get("permissions", [])
            )
            if not granted:
                what = f"{kind}/{subresource}" if subresource else kind
                raise _host_error(403, "Denied", f"the policy does not let this plugin {verb} {what}")
        self._fail_if_due(verb, kind)

    def _admit_base(self, write: Write) -> None:
        """An update is built from the cache if it holds what the update keeps, else from a live read, which needs `get`."""
        watched = [watch for watch in self.description["watches"] if watch.get("kind") == write.kind]  # type: ignore[index]
        needed = "metadata" if write.verb == "update_status" else "."
        if not any(path in (".", needed) for watch in watched for path in watch.get("fields", [])):
            faults, self.faults = self.faults, []
            try:
                self._admit("get", write.kind, write.subresource)
            finally:
                self.faults = faults

    def _fail_if_due(self, verb: str, kind: str) -> None:
        for fault in self.faults:
            if fault[:2] == [verb, kind]:
                if fault[2] == 0:
                    self.faults.remove(fault)
                    raise fault[3]
                fault[2] -= 1

    # Other imports

    def events_emit(self, about: Any, type: str, reason: str, message: str, options: dict[str, Any]) -> None:
        kind, namespace, name, uid = about
        self.events.append(Event(kind, namespace, name, uid, type, reason, message, options))

    def queue_add(self, queue: str, key: str) -> None:
        self.queue_add_after(queue, key, 0)

    def queue_add_after(self, queue: str, key: str, delay_ms: int) -> None:
        self._check_queue(queue)
        self.enqueued.append(Enqueued(queue, key, delay_ms))

    def queue_forget(self, queue: str, key: str) -> None:
        self._check_queue(queue)

    def queue_requeues(self, queue: str, key: str) -> int:
        self._check_queue(queue)
        return 0

    def _check_queue(self, queue: str) -> None:
        if queue and self.description and queue not in [one["name"] for one in self.description["queues"]]:
            raise _host_error(400, "Invalid", f"the plugin has no queue {queue!r}")

    def clock_now(self) -> datetime:
        return self.store.now

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def log_write(self, level: str, message: str, fields: dict[str, str]) -> None:
        self.logs.append(Logged(level, message, fields))

    def log_enabled(self, level: str) -> bool:
        return True

    def metrics(self, operation: str, name: str, labels: list[str], value: float) -> None:
        if self.description is not None:
            declared = {one["name"]: len(one["labels"]) for one in self.description.get("metrics", [])}
            if declared.get(name) != len(labels):
                raise AssertionError(f"the description declares no metric {name!r} with {len(labels)} labels")
        self.measured.append(Metric(operation, name, labels, value))

    def config_get(self, key: str) -> str | None:
        declared = (self.description or {}).get("config", {}).get(key, {})
        return self.config.get(key, declared.get("default"))

    def memo_get(self, key: str) -> tuple[bytes, int] | None:
        entry = self._memo.get(key)
        if entry is None or (entry[3] is not None and entry[3] <= self.store.now):
            return None
        alive = not entry[2] or any(one["metadata"]["uid"] == entry[2] for one in self.store.objects.values())
        return entry[:2] if alive else None

    def memo_put(self, key: str, expected: int, value: bytes, object_uid: str, ttl_ms: int) -> int:
        entry = self.memo_get(key)
        if (entry[1] if entry else 0) != expected:
            raise _host_error(409, "Conflict", f"the version of {key!r} in the memo is not {expected}")
        self._memo_version += 1
        until = self.store.now + timedelta(milliseconds=ttl_ms) if ttl_ms else None
        self._memo[key] = (value, self._memo_version, object_uid, until)
        return self._memo_version

    def memo_remove(self, key: str) -> None:
        self._memo.pop(key, None)

    def signer_sign_jwt(self, key: str, claims: bytes) -> str:
        self._check_key(key)
        return f"fake.{base64.urlsafe_b64encode(claims).decode()}.{key}"

    def signer_verify_jwt(self, key: str, token: str) -> bytes:
        self._check_key(key)
        parts = token.split(".", 2)
        if len(parts) != 3 or parts[2] != key:
            raise _host_error(401, "Unauthorized", "the token was not signed by this key")
        return base64.urlsafe_b64decode(parts[1])

    def signer_certificate_authority(self, signer: str) -> list[bytes]:
        if signer not in self.authorities:
            raise _host_error(404, "NotFound", f"the host holds no authority for {signer!r}")
        return [f"authority of {signer}".encode()]

    def signer_sign_certificate(self, signer: str, template: CertificateTemplate) -> bytes:
        self.signer_certificate_authority(signer)
        return f"certificate by {signer}".encode()

    def _check_key(self, key: str) -> None:
        if key not in self.keys:
            raise _host_error(404, "NotFound", f"the host holds no key {key!r}")


def _column(value: Any, path: str) -> Any:
    return [] if value is None and "[*]" in path else value


def _in_scope(watches: list[dict[str, Any]], found: dict[str, Any]) -> bool:
    return any(
        watch.get("namespace", "") in ("", found["metadata"].get("namespace", ""))
        and selectors.labels(watch.get("labelSelector", ""))(found)
        and selectors.fields(watch.get("fieldSelector", ""))(found)
        for watch in watches
    )


def _page(items: list[Any], limit: int) -> Page:
    """Pages have at most three objects, so that longer lists in tests span several pages."""
    size = limit or 3
    rest = items[size:]
    return (dumps(items[:size]), (lambda limit: _page(rest, limit)) if rest else None)
