"""Sends events while the skill is still working.

The host names a descriptor in OPENSKILL_EVENTS_FD and reads JSON lines from it. Without that variable, or once nobody
reads any more, these functions do nothing. To watch the events by hand, use descriptor 2:

    echo '{"input":{"query":"openSkill"}}' | OPENSKILL_EVENTS_FD=2 python3 worker/skills/file_search.py

A container has no such descriptor. There the host names a mark in OPENSKILL_EVENTS_MARK, and an event is a line of
stderr that begins with it.
"""

from __future__ import annotations

import _thread  # threading would cost each skill that never uses it a millisecond
import json
import os

_open = True
_lock = _thread.allocate_lock()


def progress(fraction: float, message: str = "") -> None:
    """How much of the work is done, from 0 to 1."""
    emit({"progress": {"fraction": min(1.0, max(0.0, float(fraction))), "message": str(message)}})


def partial(value: object) -> None:
    """A part of the answer, any JSON value, ahead of the result."""
    emit({"partial": value})


def log(level: str, message: str) -> None:
    """A line for the call's log: level is debug, info, warning or error."""
    emit({"log": {"level": str(level), "message": str(message)}})


def emit(event: dict[str, object]) -> bool:
    """Sends one event. Says whether all of it was sent."""
    global _open
    descriptor, mark = channel()
    if not _open or descriptor is None:
        return False
    line = (mark + json.dumps(event, allow_nan=False) + "\n").encode("ascii", "replace")
    with _lock:  # a long line is written in several steps
        try:
            while line:
                line = line[os.write(descriptor, line):]
        except OSError:
            _open = False
    return _open


def channel() -> tuple[int | None, str]:
    """The descriptor that takes events, and the mark that each line of it begins with."""
    name = os.environ.get("OPENSKILL_EVENTS_FD", "")
    if name.isdigit() and int(name) > 1:  # 0 and 1 belong to the call itself
        return int(name), ""
    mark = os.environ.get("OPENSKILL_EVENTS_MARK", "")
    return (2, mark) if mark else (None, "")
