"""The functions that a controller in Python needs: reads of objects as dicts, single writes, and a `Guest` that catches
exceptions."""

import json
import traceback

from componentize_py_types import Err
from wit_world.exports.guest import Outcome_Done, Outcome_Failed
from wit_world.imports import lister, writer
from wit_world.imports.types import Error


class ApiError(Exception):
    """An error of the API server or the host."""

    def __init__(self, error: Error):
        super().__init__(f"{error.message} ({error.status} {error.reason})")
        self.status = error.status
        self.reason = error.reason
        self.effect = error.effect


def get(kind, namespace, name):
    """Returns the cached object with the declared fields; None if it does not exist."""
    try:
        found = lister.get(kind, namespace, name, [])
    except Err as error:
        raise ApiError(error.value) from None
    return None if found is None else json.loads(found)


def create(kind, namespace, body):
    """Creates an object."""
    _write(lambda batch: batch.create(_target(kind, namespace, ""), _bytes(body), b"", []))


def update(kind, meta, change):
    """Updates the object that was read with this metadata by a JSON merge patch."""
    target = _target(kind, meta["namespace"], meta["name"])
    _write(lambda batch: batch.update(target, meta["resourceVersion"], _bytes(change), b"", []))


def delete(kind, meta):
    """Deletes the object that was read with this metadata, with its UID as a precondition."""
    target = _target(kind, meta["namespace"], meta["name"])
    options = _bytes({"preconditions": {"uid": meta["uid"]}})
    _write(lambda batch: batch.delete(target, options, []))


def guest(describe, reconcile):
    """Returns the class `Guest` that exports a controller: `describe() -> dict` and `reconcile(namespace, name)`.

    It catches all exceptions, because one that escapes would end the instance."""

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
