"""Controllers for Flyball in Python.

    from flyball import Controller, Mapping, describe, export, watch

    class Marker(Controller):
        def describe(self):
            return (
                describe("marker")
                .watch(watch("v1/Namespace", "metadata.labels").enqueue(Mapping.itself()))
                .permission("v1/Namespace", "get", "update")
            )

        def reconcile(self, host, request):
            found = host.get("v1/Namespace", *request.key)
            if found is not None and labels.label(found, "marked") is None:
                host.update("v1/Namespace", found, {"metadata": {"labels": {"marked": "yes"}}})

    Guest = export(Marker())

Objects are dicts as the API holds them, or dataclasses by `view`. `logging` writes to the host's log. `flyball.testing` is
a cluster in memory, for unit tests without a sandbox."""

from __future__ import annotations

import sys

from . import conditions, finalizers, labels, owners
from .controller import (
    Controller,
    Delta,
    Done,
    Duration,
    Failed,
    Key,
    Outcome,
    Reference,
    Request,
    RequeueAfter,
    RoutedKey,
    Terminal,
)
from .description import Description, Mapping, Watch, describe, watch, watch_discovered
from .errors import AlreadyExistsError, ApiError, ConflictError, DeniedError, NotFoundError, TerminalError
from .host import Catalogue, Host, ServedKind
from .local import CertificateTemplate
from .views import View, field, view
from .writes import Batch, Write, errors_of

if sys.platform == "wasi":
    from ._sandbox import export
else:

    def export(controller: Controller) -> type:
        """Returns the class that a component exports: `Guest = export(MyController())` in the entry module. Outside of the
        sandbox, the class is empty, so that the entry module can be imported."""
        return type("Guest", (), {})


__version__ = "0.2.0"


__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "Batch",
    "Catalogue",
    "CertificateTemplate",
    "ConflictError",
    "Controller",
    "Delta",
    "DeniedError",
    "Description",
    "Done",
    "Duration",
    "Failed",
    "Host",
    "Key",
    "Mapping",
    "NotFoundError",
    "Outcome",
    "Reference",
    "RequeueAfter",
    "Request",
    "RoutedKey",
    "ServedKind",
    "Terminal",
    "TerminalError",
    "View",
    "Watch",
    "Write",
    "conditions",
    "describe",
    "errors_of",
    "export",
    "field",
    "finalizers",
    "labels",
    "owners",
    "view",
    "watch",
    "watch_discovered",
]
