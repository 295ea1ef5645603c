"""Times as the API writes them."""

from __future__ import annotations

from datetime import datetime, timezone


def rfc3339(time: datetime) -> str:
    """Returns a time with whole seconds, as in `2026-01-31T12:00:00Z`."""
    return time.astimezone(timezone.utc).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def parse(text: str) -> datetime:
    """Parses a time of the API. Fails with a ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
