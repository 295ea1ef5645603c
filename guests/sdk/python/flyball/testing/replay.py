"""Recorded calls as tests: `flyball record` writes them on a cluster, and a test repeats them in its own process."""

from __future__ import annotations

import json
import os
from typing import Any

from ..controller import Controller, Delta, Done, Failed, Outcome, RequeueAfter, RoutedKey, Terminal, millis
from ..guest import Exported, RouteError
from ..host import Host
from .server import server
from .world import World


def replay(controller: Controller, file: str | os.PathLike[str]) -> None:
    """Repeats the calls of a recording. Calls that were stopped at a limit are left out, because nothing stops them here.

    Fails with an AssertionError where the controller asks or writes something else than it did then, or ends in another
    way; and if the recording has no call to repeat. Fails with a ValueError if the file is not a recording."""
    _replay(controller, file, False)


def replay_fixed(controller: Controller, file: str | os.PathLike[str]) -> None:
    """Repeats the calls of a recording as `replay` does, but those that failed must no longer fail: a regression test of a
    fixed bug. Such a call must end well, or ask all that the failed call asked and then more, to which the recording has no
    answer. Fails with a ValueError if the recording has no call that failed."""
    _replay(controller, file, True)


def _replay(controller: Controller, file: str | os.PathLike[str], fixed: bool) -> None:
    path = os.path.abspath(file)
    calls = server().call(0, "recording", file=path, fixed=fixed)
    assert calls, f"{file}: the recording has no call to repeat"
    for recorded in calls:
        world = World(server().call(0, "replay", file=path, line=recorded["line"]))
        ended = _run(Exported(controller, Host(world)), recorded["call"])
        try:
            world.call("replayed", ended=ended, fixed=fixed)
        except ValueError as mistake:
            raise AssertionError(str(mistake)) from None


def _run(exported: Exported, call: dict[str, Any]) -> dict[str, Any]:
    """Calls the controller as the sandbox does. Returns how the call ended, as a recording has it."""
    if "reconcile" in call:
        return _ended(exported.reconcile(**call["reconcile"]))
    if "route" in call:
        deltas = [
            Delta(one["watch"], one["type"], one.get("old"), one.get("new"), one["initial"])
            for one in call["route"]["deltas"]
        ]
        try:
            return {"routed": {"keys": [_routed(key) for key in exported.route(deltas)]}}
        except RouteError as error:
            return {"notRouted": {"message": str(error)}}
    if "describe" in call:
        return {"described": {"description": json.loads(exported.describe())}}
    raise ValueError("a call of this kind is repeated by `flyball replay` alone")


def _ended(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, RequeueAfter):
        return {"requeueAfter": {"ms": millis(outcome.delay)}}
    if isinstance(outcome, Failed):
        return {"failed": {"message": outcome.message}}
    if isinstance(outcome, Terminal):
        return {"terminal": {"message": outcome.message}}
    assert isinstance(outcome, Done)
    return {"done": {}}


def _routed(key: RoutedKey) -> dict[str, Any]:
    return {"queue": key.queue, "key": str(key.key), "delayMs": millis(key.delay)}
