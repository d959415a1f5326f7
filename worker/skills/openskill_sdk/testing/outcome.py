"""What a run of a skill came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Artifact:
    """A picture or a file."""

    name: str
    media_type: str
    data: bytes


@dataclass
class Outcome:
    """The result of a call, as its caller gets it, and what the skill said while it ran."""

    #: Whether the call succeeded. Then `code` is empty; otherwise `data` is None.
    success: bool
    data: Any = None
    #: The error: its code such as "INVALID_ARGUMENT", its message, and what is machine-readable of it.
    code: str = ""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    #: A line for a model.
    text: str = ""
    #: The skill's own version of itself, if it reports one.
    version: str = ""
    #: Whether there was more than `data` shows.
    truncated: bool = False
    artifacts: list[Artifact] = field(default_factory=list)
    #: What the caller is warned of, such as an artifact that was dropped.
    warnings: list[str] = field(default_factory=list)
    #: Events, in their order: `{"fraction", "message"}`, `{"level", "message"}`, and any values.
    progress: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    partials: list[Any] = field(default_factory=list)
    #: The questions to the user: `{"id", "message", "schema"?}`.
    questions: list[dict[str, Any]] = field(default_factory=list)
    #: The end of what it wrote to stderr. Its caller never sees that.
    stderr: str = ""
    #: None if a signal ended it.
    exit_code: int | None = None


def failed(code: str, message: str) -> Outcome:
    """A failure that the skill did not report itself."""
    return Outcome(False, code=code, message=message)
