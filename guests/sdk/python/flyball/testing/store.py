"""The objects of a fake cluster, changed as the API server changes them: resource versions, UIDs, generations, conflicts,
finalizers and deletion timestamps, preconditions."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any

from ..errors import ApiError
from ..times import rfc3339
from ..writes import Write
from . import patches
from .managers import Managers

#: The identity of an object: kind, namespace, name.
Id = tuple[str, str, str]

_KEPT = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion")
_SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation")


def id_of(found: dict[str, Any]) -> Id:
    """Returns the identity of an object with `apiVersion` and `kind`."""
    meta = found["metadata"]
    return (f"{found['apiVersion']}/{found['kind']}", meta.get("namespace", ""), meta["name"])


def refusal(status: int, reason: str, message: str) -> ApiError:
    """Returns an error as the API server answers it."""
    return ApiError.of(status, reason, message, "refused" if status < 500 else "unknown")


class Store:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.objects: dict[Id, dict[str, Any]] = {}
        self._managers: dict[Id, Managers] = {}
        self._version = 0

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind, or of all kinds (`*`), in order of namespace and name."""
        return [self.objects[one] for one in sorted(self.objects) if kind in ("*", one[0])]

    def put(self, found: dict[str, Any]) -> None:
        """Stores an object verbatim. What a server sets and the object lacks is filled in."""
        found = copy.deepcopy(found)
        self._fill(found)
        self.objects[id_of(found)] = found

    def touch(self, found: dict[str, Any]) -> None:
        """Gives an object a new resource version."""
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)

    def remove(self, one: Id) -> None:
        """Removes an object at once."""
        self.objects.pop(one, None)
        self._managers.pop(one, None)

    def run(self, write: Write, manager: str) -> dict[str, Any]:
        """Runs a write other than the deletion of a collection, and returns the object as it then is."""
        manager = write.options.get("fieldManager", manager)
        one = (write.kind, write.namespace, write.name)
        if write.verb == "create":
            return self._create(write, manager)
        old = self.objects.get(one)
        if write.verb == "delete":
            return self.delete(one, write.options)
        if write.verb == "patch":
            return self._patch(one, old, write, manager)
        if old is None:
            raise _missing(one)
        if write.resource_version != old["metadata"]["resourceVersion"]:
            message = "the object has been modified; please apply your changes to the latest version"
            raise refusal(409, "Conflict", f"{write.kind} {write.name!r}: {message}")
        if write.verb == "update":
            return self._replace(one, write.subresource, patches.merge(old, write.body), manager)
        new = {**old, "status": copy.deepcopy(write.body)}
        if write.metadata:
            new["metadata"] = patches.merge(old["metadata"], write.metadata)
        return self._replace(one, "status", new, manager)

    def _create(self, write: Write, manager: str) -> dict[str, Any]:
        if write.subresource == "eviction":
            return self.delete((write.kind, write.namespace, write.name), {})
        if write.subresource:
            return copy.deepcopy(write.body)
        found = copy.deepcopy(write.body)
        meta = found.get("metadata")
        if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
            raise refusal(422, "Invalid", f"{write.kind}: name or generateName is required")
        group_version, _, kind = write.kind.rpartition("/")
        found.update(apiVersion=group_version, kind=kind)
        if write.namespace:
            meta["namespace"] = write.namespace
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self._version + 1:05}"
        namespace = self.objects.get(("v1/Namespace", "", write.namespace))
        if namespace and namespace["metadata"].get("deletionTimestamp"):
            message = f"{meta['name']!r} is forbidden: the namespace {write.namespace} is being terminated"
            raise refusal(403, "NamespaceTerminating", message)
        if id_of(found) in self.objects:
            raise refusal(409, "AlreadyExists", f"{write.kind} {meta['name']!r} already exists")
        for name in _SET_BY_SERVER:
            meta.pop(name, None)
        if "spec" in found:
            meta["generation"] = 1
        self._fill(found)
        self.objects[id_of(found)] = found
        self._managers.setdefault(id_of(found), Managers()).update(manager, "", None, found)
        return found

    def _patch(self, one: Id, old: dict[str, Any] | None, write: Write, manager: str) -> dict[str, Any]:
        if write.patch_type == "apply":
            return self._apply(one, old, write, manager)
        if old is None:
            raise _missing(one)
        kinds = {"json": patches.json_patch, "merge": patches.merge, "strategic": patches.strategic}
        if write.patch_type not in kinds:
            raise ApiError.of(400, "Invalid", f"{write.patch_type!r} is no type of a patch")
        new = kinds[write.patch_type](old, write.body)
        if isinstance(write.body, dict):
            _check_identity(one, old, write.body)
        return self._replace(one, write.subresource, new, manager)

    def _apply(self, one: Id, old: dict[str, Any] | None, write: Write, manager: str) -> dict[str, Any]:
        if "fieldManager" not in write.options:
            raise refusal(422, "Invalid", "fieldManager is required for an apply")
        applied = {
            name: value for name, value in write.body.items() if (name == "status") == (write.subresource == "status")
        }
        if old is None and write.subresource:
            raise _missing(one)
        if old is not None:
            _check_identity(one, old, write.body)
        else:
            body = {**applied, "metadata": {**applied.get("metadata", {}), "name": one[2]}}
            old = self._create(Write.create(one[0], one[1], body), manager)
            self._managers[one] = Managers()
        managers = self._managers.setdefault(one, Managers())
        force = bool(write.options.get("force"))
        new = managers.apply(manager, write.subresource, old, applied, force)
        return self._replace(one, write.subresource, new, None)

    def _replace(self, one: Id, subresource: str, new: dict[str, Any], manager: str | None) -> dict[str, Any]:
        old = self.objects[one]
        new = copy.deepcopy(new)
        if subresource == "status":
            new = {**copy.deepcopy(old), "status": new.get("status")}
        elif "status" in old:
            new["status"] = copy.deepcopy(old["status"])
        else:
            new.pop("status", None)
        meta = new["metadata"]
        for name in _KEPT:
            meta.pop(name, None)
            if name in old["metadata"]:
                meta[name] = old["metadata"][name]
        added = set(meta.get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
        if added and meta.get("deletionTimestamp"):
            message = "no new finalizers can be added if the object is being deleted"
            raise refusal(422, "Invalid", f"{one[0]} {one[2]!r} is invalid: metadata.finalizers: Forbidden: {message}")
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        self.touch(new)
        if manager is not None:
            self._managers.setdefault(one, Managers()).update(manager, subresource, old, new)
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.remove(one)
        else:
            self.objects[one] = new
        return new

    def delete(self, one: Id, options: dict[str, Any]) -> dict[str, Any]:
        """Deletes an object, or marks it as being deleted if it has finalizers."""
        found = self.objects.get(one)
        if found is None:
            raise _missing(one)
        wanted = options.get("preconditions") or {}
        for name in ("uid", "resourceVersion"):
            if name in wanted and wanted[name] != found["metadata"][name]:
                raise refusal(409, "Conflict", f"{one[0]} {one[2]!r}: the precondition on metadata.{name} failed")
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(options.get("propagationPolicy", ""))
        kept = list(found["metadata"].get("finalizers") or [])
        if finalizer and finalizer not in kept:
            kept.append(finalizer)
        if not kept:
            self.remove(one)
        elif not found["metadata"].get("deletionTimestamp"):
            found = copy.deepcopy(found)
            seconds = timedelta(seconds=options.get("gracePeriodSeconds") or 0)
            found["metadata"].update(finalizers=kept, deletionTimestamp=rfc3339(self.now + seconds))
            self.touch(found)
            self.objects[one] = found
        return found

    def _fill(self, found: dict[str, Any]) -> None:
        meta = found["metadata"]
        self._version += 1
        meta.setdefault("uid", f"00000000-0000-0000-0000-{self._version:012}")
        meta.setdefault("resourceVersion", str(self._version))
        meta.setdefault("creationTimestamp", rfc3339(self.now))


def _check_identity(one: Id, old: dict[str, Any], patch: dict[str, Any]) -> None:
    sent = patch.get("metadata") or {}
    for name in ("uid", "resourceVersion"):
        if sent.get(name) and sent[name] != old["metadata"][name]:
            raise refusal(409, "Conflict", f"{one[0]} {one[2]!r}: metadata.{name} differs")


def _missing(one: Id) -> ApiError:
    return refusal(404, "NotFound", f"{one[0]} {one[2]!r} not found")
