"""Live reads: each asks the API server. They need the verb `get` or `list` on the kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator
from urllib.parse import quote

from .errors import ApiError
from .views import View, fields_of, kind_of, parser_of

if TYPE_CHECKING:
    from ._imports import Imports

#: The classes below have methods `list`, which hide the type.
_List = list

#: Objects of a page of `Live.list`, as client-go's.
PAGE = 500


class Live:
    """Live reads: `host.live`."""

    def __init__(self, imports: Imports):
        self._imports = imports

    def get(self, kind: str | type[View], namespace: str, name: str, *fields: str) -> Any:
        """Returns an object; None if it does not exist. Without fields, a dict is the whole object."""
        result = self.batch().get(kind, namespace, name, *fields).run()[0]
        if not isinstance(result, ApiError):
            return result
        if result.is_not_found():
            return None
        raise result

    def list(
        self,
        kind: str | type[View],
        namespace: str = "",
        *fields: str,
        labels: str = "",
        field_selector: str = "",
    ) -> Iterator[Any]:
        """Iterates over the objects of a kind in a namespace, or in all. It reads pages of 500 as they are needed."""
        parameters = {"labelSelector": labels, "fieldSelector": field_selector, "limit": str(PAGE)}
        parse = parser_of(kind)
        while True:
            page = self._one(self.batch().list(kind, namespace, *fields, **parameters))
            yield from map(parse, page.get("items") or [])
            token = page.get("metadata", {}).get("continue")
            if not token:
                return
            parameters["continue"] = token

    def raw(self, path: str, **parameters: str) -> Any:
        """Returns the JSON that a GET of a path answers, such as `/apis/metrics.k8s.io/v1beta1/pods`. Needs the import
        `raw`. Parameters are escaped."""
        return self._one(self.batch().raw(path, **parameters))

    def batch(self) -> ReadBatch:
        """Returns a batch of reads that the host runs concurrently."""
        return ReadBatch(self._imports)

    @staticmethod
    def _one(batch: ReadBatch) -> Any:
        result = batch.run()[0]
        if isinstance(result, ApiError):
            raise result
        return result


class ReadBatch:
    """Live reads that the host runs concurrently."""

    def __init__(self, imports: Imports):
        self._imports = imports
        self._reads: _List[tuple[Any, ...]] = []
        self._parsers: _List[Any] = []

    def get(self, kind: str | type[View], namespace: str, name: str, *fields: str) -> ReadBatch:
        """Adds a read of an object. An object that does not exist is a NotFoundError."""
        return self._add(parser_of(kind), "get", kind_of(kind), namespace, name, [*fields_of(kind), *fields])

    def list(self, kind: str | type[View], namespace: str = "", *fields: str, **parameters: str) -> ReadBatch:
        """Adds a read of a list object, as the API returns it. The parameters are the API's: `labelSelector`, `limit`, …"""
        pairs = [(name, value) for name, value in parameters.items() if value]
        return self._add(None, "list", kind_of(kind), namespace, pairs, [*fields_of(kind), *fields])

    def raw(self, path: str, **parameters: str) -> ReadBatch:
        """Adds a GET of a path."""
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items() if value)
        return self._add(None, "raw", f"{path}?{query}" if query else path)

    def run(self) -> _List[Any]:
        """Runs the reads and empties the batch. Returns one result for each, in their order; an ApiError is not raised."""
        reads, self._reads = self._reads, []
        parsers, self._parsers = self._parsers, []
        results = self._imports.reader_run(reads) if reads else []
        return [_parse(result, parser) for result, parser in zip(results, parsers)]

    def _add(self, parser: Any, *read: Any) -> ReadBatch:
        self._reads.append(read)
        self._parsers.append(parser)
        return self


def _parse(result: bytes | ApiError, parser: Any) -> Any:
    if isinstance(result, ApiError):
        return result
    parsed = json.loads(result)
    return parser(parsed) if parser else parsed


def segment(text: str) -> str:
    """Escapes a segment of a path for `raw`."""
    return quote(text, safe="")
