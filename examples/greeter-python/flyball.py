"""What a controller in Python needs of the world: objects as dicts, one write at a time, and no exception that escapes."""

import json
import traceback

from componentize_py_types import Err
from wit_world.exports.guest import Outcome_Done, Outcome_Failed
from wit_world.imports import lister, writer
from wit_world.imports.types import Error


class ApiError(Exception):
    """Why a call failed: the API server's answer, or the host's."""

    def __init__(self, error: Error):
        super().__init__(f"{error.message} ({error.status} {error.reason})")
        self.status = error.status
        self.reason = error.reason
        self.effect = error.effect


def get(kind, namespace, name):
    """The cached object, with the fields that were declared; None if there is none."""
    try:
        found = lister.get(kind, namespace, name, [])
    except Err as error:
        raise ApiError(error.value) from None
    return None if found is None else json.loads(found)


def create(kind, namespace, body):
    """Creates an object."""
    _write(lambda batch: batch.create(_target(kind, namespace, ""), _bytes(body), b"", []))


def update(kind, meta, change):
    """Updates the object that was read with this metadata: `change` is a JSON merge patch."""
    target = _target(kind, meta["namespace"], meta["name"])
    _write(lambda batch: batch.update(target, meta["resourceVersion"], _bytes(change), b"", []))


def delete(kind, meta):
    """Deletes the object that was read with this metadata, and no other of its name."""
    target = _target(kind, meta["namespace"], meta["name"])
    options = _bytes({"preconditions": {"uid": meta["uid"]}})
    _write(lambda batch: batch.delete(target, options, []))


def guest(describe, reconcile):
    """The exports of a controller: `describe() -> dict` and `reconcile(namespace, name)`. A class named `Guest`.

    An exception that escapes would end the instance, so all are caught."""

    class Guest:
        def describe(self):
            return _bytes(describe())

        def reconcile(self, queue, key, attempt):
            namespace, _, name = key.rpartition("/")
            try:
                reconcile(namespace, name)
            except ApiError as error:
                return Outcome_Failed(str(error))
            except BaseException:
                return Outcome_Failed(traceback.format_exc())
            return Outcome_Done()

        def route(self, deltas):
            return []

    return Guest


def _write(add):
    with writer.Batch() as batch:
        add(batch)
        result = batch.run()[0]
    if isinstance(result, Err):
        raise ApiError(result.value)


def _target(kind, namespace, name):
    return writer.Target(kind, namespace, name, "")


def _bytes(body):
    return json.dumps(body).encode()
