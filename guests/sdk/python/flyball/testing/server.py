"""The process that holds the clusters of a test program: `flyball test-server`. It ends when its input is closed."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import threading
from typing import Any

from ..errors import ApiError

#: The error of a reply.
ErrorDocument = dict[str, Any]


class Server:
    """The child process, and one call at a time."""

    def __init__(self) -> None:
        program = os.environ.get("FLYBALL") or "flyball"
        try:
            self._process = subprocess.Popen(
                [program, "test-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except OSError as error:
            advice = "put it on the PATH, or set the variable FLYBALL to its path"
            raise RuntimeError(f"tests need the program flyball: {advice}: {error}") from None
        self._lock = threading.Lock()
        atexit.register(self._process.communicate)

    def call(self, cluster: int, call: str, /, **arguments: Any) -> Any:
        """Makes a call and returns its result. Raises the ApiError that the controller gets, or a ValueError if the
        test makes a mistake."""
        line = json.dumps({"cluster": cluster, "call": call, "with": arguments or None})
        with self._lock:
            reply = json.loads(self._ask(line))
        if "mistake" in reply:
            raise ValueError(f"{call}: {reply['mistake']}")
        if "error" in reply:
            raise error_of(reply["error"])
        return reply["ok"]

    def _ask(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("flyball test-server has ended")
        return answer


@functools.cache
def server() -> Server:
    """Starts the server at the first call."""
    return Server()


def error_of(document: ErrorDocument) -> ApiError:
    """Returns the error of a reply."""
    milliseconds = document.get("retryAfterMs")
    retry_after = None if milliseconds is None else milliseconds / 1000
    return ApiError.of(document["status"], document["reason"], document["message"], document["effect"], retry_after)


def document_of(error: ApiError) -> ErrorDocument:
    """Returns an error as a call has it."""
    document = {"status": error.status, "reason": error.reason, "message": error.message, "effect": error.effect}
    if error.retry_after is not None:
        document["retryAfterMs"] = round(error.retry_after * 1000)
    return document
