"""What a skill says while it is still working.

The host names a descriptor in OPENSKILL_EVENTS_FD and reads JSON lines from it. Without that variable,
or once nobody reads any more, these functions do nothing. To watch the events by hand, use descriptor 2:

    echo '{"input":{"query":"openSkill"}}' | OPENSKILL_EVENTS_FD=2 python3 worker/skills/file_search.py

A container has no such descriptor. There the host names a mark in OPENSKILL_EVENTS_MARK, and an event is a line
of stderr that begins with it.
"""

import json
import os

_open = True


def progress(fraction, message=""):
    """How much of the work is done, from 0 to 1."""
    _emit({"progress": {"fraction": min(1.0, max(0.0, float(fraction))), "message": str(message)}})


def partial(value):
    """A piece of the answer, any JSON value, ahead of the result."""
    _emit({"partial": value})


def log(level, message):
    """A line for the call's log: level is debug, info, warn or error."""
    _emit({"log": {"level": str(level), "message": str(message)}})


def _emit(event):
    global _open
    descriptor, mark = _where()
    if not _open or descriptor is None:
        return
    line = (mark + json.dumps(event, allow_nan=False) + "\n").encode("ascii", "replace")
    try:
        while line:
            line = line[os.write(descriptor, line):]
    except OSError:
        _open = False


def _where():
    """The descriptor that takes events, and what each line of it begins with."""
    name = os.environ.get("OPENSKILL_EVENTS_FD", "")
    if name.isdigit() and int(name) > 1:  # 0 and 1 belong to the call itself
        return int(name), ""
    mark = os.environ.get("OPENSKILL_EVENTS_MARK", "")
    return (2, mark) if mark else (None, "")
