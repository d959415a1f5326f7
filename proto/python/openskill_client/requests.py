"""What is sent: messages and metadata, made from what a program passes."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from .contract import EXPORT_TOOLS, INVOKE, READ_ARTIFACT, SUBMIT, WAIT_OPERATION, message

#: How long a call may take if nobody says, in seconds. The manifest's own timeout may be shorter.
DEFAULT_TIMEOUT = 60.0

#: How much of an artifact one request reads, in bytes.
RANGE = 1024 * 1024

_ACTIONS = {"accept": 1, "decline": 2, "cancel": 3}

_DIALECTS = {"openai": 1, "openai-responses": 2, "anthropic": 3, "gemini": 4, "dashscope": 5, "mcp": 6}


@dataclass(frozen=True)
class Call:
    """A call, and until when it is worth anything."""

    request: Any
    metadata: tuple[tuple[str, str], ...]
    deadline: float
    has_key: bool = False

    def left(self) -> float:
        """Seconds until the deadline. Never negative: gRPC then answers that it has passed."""
        return max(self.deadline - time.monotonic(), 0.0)


def call(
    skill: str,
    arguments: Mapping[str, Any] | str | None,
    *,
    timeout: float,
    session: str = "",
    idempotency_key: str = "",
    trace_id: str = "",
    traceparent: str = "",
    strict: bool = False,
    interactive: bool = False,
) -> Call:
    """`skill` may be empty if `arguments` is a model's tool call as text, which names it."""
    request = INVOKE.request(
        skill_id=skill,
        session_id=session,
        idempotency_key=idempotency_key,
        argument_policy=2 if strict else 0,
        interactive=interactive,
    )
    if isinstance(arguments, str):
        request.call = arguments
    else:
        request.input_json = json.dumps(dict(arguments or {}), ensure_ascii=False, allow_nan=False)
    metadata = [(name, value) for name, value in (("x-trace-id", trace_id), ("traceparent", traceparent)) if value]
    return Call(request, tuple(metadata), time.monotonic() + timeout, bool(idempotency_key))


def submission(call: Call, run_timeout: float | None, start_at: datetime | None, webhook: str) -> Call:
    """The same call, to be stored. `run_timeout`: of each run, in seconds. None: the skill's own."""
    request = SUBMIT.request(call=call.request, webhook=webhook)
    if run_timeout is not None:
        request.call.timeout_ms = max(round(run_timeout * 1000), 1)
    if start_at is not None:
        # A time without a zone is the local one, as elsewhere in Python.
        since = start_at.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
        request.start_at.seconds, rest = divmod(since // timedelta(microseconds=1), 1_000_000)
        request.start_at.nanos = rest * 1000
    return Call(request, call.metadata, call.deadline, call.has_key)


def operation_name(given: str) -> str:
    """The name of an operation, of which a program may leave out the beginning."""
    return given if given.startswith("operations/") else f"operations/{given}"


def wait(name: str, seconds: float) -> Any:
    request = WAIT_OPERATION.request(name=name)
    # Present even if it is 0, which asks for the state at once.
    request.timeout.SetInParent()
    request.timeout.seconds = int(seconds)
    request.timeout.nanos = int(seconds % 1 * 1e9)
    return request


def tools(dialect: str, toolset: str, query: str, limit: int) -> Any:
    if dialect not in _DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(_DIALECTS)}")
    return EXPORT_TOOLS.request(dialect=_DIALECTS[dialect], toolset=toolset, query=query, limit=limit)


def answer(request_id: str, action: str, content: Mapping[str, Any] | None) -> Any:
    if action not in _ACTIONS:
        raise ValueError(f"unknown action {action!r}: use one of {', '.join(_ACTIONS)}")
    text = json.dumps(dict(content), ensure_ascii=False) if content is not None else ""
    return message("InputResponse")(request_id=request_id, action=_ACTIONS[action], content_json=text)


def part(handle: str, offset: int) -> Any:
    return READ_ARTIFACT.request(handle=handle, offset=offset, length=RANGE)
