"""Writes, single or in batches that the host runs concurrently."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from .errors import ApiError
from .views import View, kind_of, meta_of

if TYPE_CHECKING:
    from ._imports import Imports


@dataclass
class Write:
    """A write: its target, operation, options and the fields to return. It does nothing until it is run."""

    #: `create`, `update`, `update_status`, `patch`, `delete` or `delete_collection`.
    verb: str
    kind: str
    namespace: str
    #: Empty for a create with the name in the object's metadata, and for a collection.
    name: str
    #: The object, the change, the whole new status, or the patch.
    body: Any = None
    #: Empty, or a subresource: `status`, `scale`, `eviction`, …
    subresource: str = ""
    #: For updates, the version that the change is based on.
    resource_version: str = ""
    #: `json`, `merge`, `strategic` or `apply`.
    patch_type: str = ""
    #: A merge patch of the metadata that goes along with a status.
    metadata: Any = None
    label_selector: str = ""
    field_selector: str = ""
    #: The API's options object, such as DeleteOptions.
    options: dict[str, Any] = field(default_factory=dict)
    #: The paths of the answer's fields to return; none if empty.
    returns: list[str] = field(default_factory=list)

    @classmethod
    def create(cls, kind: str | type[View], namespace: str, body: Any) -> Write:
        """Creates an object. Its metadata has a `name` or a `generateName`."""
        return cls("create", kind_of(kind), namespace, "", body)

    @classmethod
    def create_on(cls, kind: str | type[View], namespace: str, name: str, subresource: str, body: Any) -> Write:
        """Posts to a subresource of an object, such as `eviction`."""
        return cls("create", kind_of(kind), namespace, name, body, subresource)

    @classmethod
    def update(cls, kind: str | type[View], found: Any, change: Any) -> Write:
        """Updates an object that was read by a JSON merge patch. Fails with a ConflictError if it has changed since."""
        meta = meta_of(found)
        return cls._based("update", kind, meta, change)

    @classmethod
    def update_status(cls, kind: str | type[View], found: Any, status: Any, metadata: Any = None) -> Write:
        """Replaces the whole status of an object that was read. Fails with a ConflictError if it has changed since.
        `metadata` is a merge patch of the metadata, which the API server takes along for some kinds."""
        return replace(cls._based("update_status", kind, meta_of(found), status), metadata=metadata)

    @classmethod
    def patch(cls, kind: str | type[View], namespace: str, name: str, patch_type: str, patch: Any) -> Write:
        """Patches an object, whatever its version. The type is `json`, `merge`, `strategic` or `apply`."""
        return cls("patch", kind_of(kind), namespace, name, patch, patch_type=patch_type)

    @classmethod
    def apply(cls, kind: str | type[View], body: dict[str, Any], field_manager: str, force: bool = False) -> Write:
        """Applies a configuration with a name in its metadata (server-side apply). Fails with a ConflictError if another
        manager owns a field with another value, unless `force` takes the field over."""
        kind = kind_of(kind)
        group_version, _, name = kind.rpartition("/")
        meta = body["metadata"]
        body = {"apiVersion": group_version, "kind": name, **body}
        write = cls.patch(kind, meta.get("namespace", ""), meta["name"], "apply", body)
        write.options = {"fieldManager": field_manager, "force": force}
        return write

    @classmethod
    def delete(cls, kind: str | type[View], found: Any) -> Write:
        """Deletes the object that was read, with its UID as a precondition."""
        meta = meta_of(found)
        return cls.delete_name(kind, meta.get("namespace", ""), meta["name"]).option(preconditions={"uid": meta["uid"]})

    @classmethod
    def delete_name(cls, kind: str | type[View], namespace: str, name: str) -> Write:
        """Deletes the object of this name."""
        return cls("delete", kind_of(kind), namespace, name)

    @classmethod
    def delete_collection(cls, kind: str | type[View], namespace: str, labels: str = "", fields: str = "") -> Write:
        """Deletes all objects of a kind in a namespace that match both selectors."""
        return cls("delete_collection", kind_of(kind), namespace, "", label_selector=labels, field_selector=fields)

    @classmethod
    def _based(cls, verb: str, kind: str | type[View], meta: dict[str, Any], body: Any) -> Write:
        namespace, version = meta.get("namespace", ""), meta["resourceVersion"]
        return cls(verb, kind_of(kind), namespace, meta["name"], body, resource_version=version)

    def on(self, subresource: str) -> Write:
        """Applies the write to this subresource."""
        return replace(self, subresource=subresource)

    def returning(self, *fields: str) -> Write:
        """Returns these fields of the answer, such as `metadata`; `.` means the whole object."""
        return replace(self, returns=[*fields])

    def option(self, **options: Any) -> Write:
        """Sets options of the API: `propagationPolicy="Foreground"`, `gracePeriodSeconds=0`, `dryRun=["All"]`."""
        return replace(self, options={**self.options, **options})


class Batch:
    """Writes that the host runs concurrently: `host.batch()`. With `slow_start`, it starts with rounds of this size and
    doubles the size after each round without an error. With `stop_on_error`, no write is started after one has failed."""

    def __init__(self, imports: Imports, slow_start: int = 0, stop_on_error: bool = False):
        self._imports = imports
        self._slow_start = slow_start
        self._stop_on_error = stop_on_error
        self.writes: list[Write] = []

    def add(self, *writes: Write) -> Batch:
        """Adds writes."""
        self.writes.extend(writes)
        return self

    def extend(self, writes: Iterable[Write]) -> Batch:
        """Adds writes."""
        return self.add(*writes)

    def run(self) -> list[Any]:
        """Runs the writes and empties the batch. Returns one result for each, in their order: the fields asked for as a
        dict, None if none were, or an ApiError, which is not raised."""
        writes, self.writes = self.writes, []
        if not writes:
            return []
        results = self._imports.writer_run(writes, self._slow_start, self._stop_on_error)
        return [_parse(result) for result in results]


def _parse(result: bytes | ApiError) -> Any:
    if isinstance(result, ApiError):
        return result
    return json.loads(result) if result else None


def errors_of(results: Iterable[Any]) -> Iterator[ApiError]:
    """Returns the errors among the results of a batch."""
    return (result for result in results if isinstance(result, ApiError))
