"""Owner references."""

from __future__ import annotations

from typing import Any

from .views import View, kind_of, meta_of


def controller(found: Any) -> dict[str, Any] | None:
    """Returns the owner reference of an object's controller; None if nothing controls it."""
    owners = meta_of(found).get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def is_controlled_by(found: Any, owner: Any) -> bool:
    """Whether the owner, an object or a view, is the controller of an object."""
    return (controller(found) or {}).get("uid") == meta_of(owner)["uid"]


def owner_reference(kind: str | type[View], owner: Any) -> dict[str, Any]:
    """Returns a reference to an owner of this kind, not as the controller."""
    group_version, _, name = kind_of(kind).rpartition("/")
    meta = meta_of(owner)
    return {"apiVersion": group_version, "kind": name, "name": meta["name"], "uid": meta["uid"]}


def controller_reference(kind: str | type[View], owner: Any) -> dict[str, Any]:
    """Returns a reference to an owner of this kind as the controller. It blocks the owner's deletion in the foreground, for
    which the plugin needs the verb `update` on the owner's subresource `finalizers`."""
    return {**owner_reference(kind, owner), "controller": True, "blockOwnerDeletion": True}


def is_of(reference: dict[str, Any], kind: str | type[View]) -> bool:
    """Whether an owner reference is of this group and kind, in any version."""
    own = f"{reference.get('apiVersion', '')}/{reference.get('kind', '')}"
    return _group_kind(own) == _group_kind(kind_of(kind))


def _group_kind(kind: str) -> tuple[str, str]:
    parts = kind.split("/")
    return ("" if len(parts) == 2 else parts[0], parts[-1])
