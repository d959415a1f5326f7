"""`Context`: what a function can do during its call."""

from __future__ import annotations

import os
import time

from . import events, questions
from .artifacts import artifact


class Context:
    """The parameter `context: Context` of a function that is a skill. Not an argument of callers.

    Outside a call, events go nowhere, and nobody can be asked. When a call is cancelled, or its deadline passes, the process
    is ended: there is nothing to check.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()

    progress = staticmethod(events.progress)
    partial = staticmethod(events.partial)
    log = staticmethod(events.log)
    artifact = staticmethod(artifact)
    ask = staticmethod(questions.ask)
    ask_user = staticmethod(questions.ask_user)
    ask_together = staticmethod(questions.ask_together)
    open_url = staticmethod(questions.open_url)
    sample = staticmethod(questions.sample)
    roots = staticmethod(questions.roots)

    def debug(self, message: str) -> None:
        """A line for the call's log."""
        events.log("debug", message)

    def info(self, message: str) -> None:
        """A line for the call's log."""
        events.log("info", message)

    def warning(self, message: str) -> None:
        """A line for the call's log."""
        events.log("warning", message)

    def error(self, message: str) -> None:
        """A line for the call's log. Does not fail the call."""
        events.log("error", message)

    @property
    def skill_id(self) -> str:
        """The id of the skill."""
        return os.environ.get("OPENSKILL_SKILL_ID", "")

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return os.environ.get("OPENSKILL_CALL_ID", "")

    @property
    def session_id(self) -> str:
        """The id of the caller's session; empty without one."""
        return os.environ.get("OPENSKILL_SESSION_ID", "")

    @property
    def principal(self) -> str:
        """On whose behalf the call is made; empty for an anonymous caller."""
        return os.environ.get("OPENSKILL_PRINCIPAL", "")

    def remaining(self) -> float | None:
        """The seconds until the call's deadline. None outside a call."""
        left = os.environ.get("OPENSKILL_TIMEOUT_MS", "")
        return max(0.0, int(left) / 1000 - (time.monotonic() - self._started)) if left.isdigit() else None
