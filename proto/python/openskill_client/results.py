"""What calls return, made from messages."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from .contract import enum_name, message as message_class
from .errors import of_operation, of_result


@dataclass(frozen=True)
class Repair:
    """A repair that the gateway made to the arguments before the skill saw them."""

    #: JSON Pointer to the value, in the repaired arguments.
    path: str
    #: The rule, such as `string_to_integer`.
    kind: str
    #: The value before and after, as JSON text. Empty if there was none.
    before: str
    after: str


@dataclass(frozen=True)
class Artifact:
    """An image, a sound or a file that a skill produced."""

    name: str
    media_type: str
    size: int
    #: The content of a small one. None: `read_artifact(handle)` fetches it.
    content: bytes | None = None
    handle: str = ""


@dataclass(frozen=True)
class Result:
    """A call that succeeded."""

    #: What the skill returned: any JSON value. Integers are exact.
    data: Any
    #: A summary for a model.
    text: str
    skill_id: str
    trace_id: str
    #: From the gateway's acceptance of the call to its result.
    latency_ms: float
    worker_id: str
    version: str
    truncated: bool
    repairs: tuple[Repair, ...] = ()
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    #: JSON Pointers to the parameters that the call left out, and that the skill got with their defaults.
    defaults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """An event of a call that runs."""

    #: `accepted`, `progress`, `log`, `partial`, `artifact`, `input_required` or `result`.
    kind: str
    #: Of `progress`, 0 to 1. None if the skill does not know.
    fraction: float | None = None
    #: Of `progress`, `log` and `input_required`.
    message: str = ""
    #: Of `log`: `debug`, `info`, `warning` or `error`.
    level: str = ""
    #: Of `partial`: any JSON value.
    data: Any = None
    artifact: Artifact | None = None
    #: Of `input_required`: what `answer` needs, and the JSON Schema of the answer.
    request_id: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    #: Of `result`, which is the last.
    result: Result | None = None
    #: Of an operation's event: counts from 1. `Operation.events(after=number)` continues after it.
    number: int = 0


@dataclass(frozen=True)
class Skill:
    """A skill as callers see it."""

    id: str
    version: str
    description: str
    toolset: str
    input_schema: dict[str, Any]
    #: Empty if the skill declares none.
    output_schema: dict[str, Any]
    idempotent: bool
    destructive: bool
    available: bool
    #: Why it can't be called now. Empty if it can.
    reason: str


def _json(text: str) -> Any:
    return json.loads(text) if text else None


def artifact(message: Any) -> Artifact:
    content = message.data if message.WhichOneof("content") == "data" else None
    return Artifact(message.name, message.media_type, message.size_bytes, content, message.handle)


def result(message: Any) -> Result:
    """The result of a call, or its error raised."""
    if not message.success:
        raise of_result(message.error, message.trace_id)
    meta = message.meta
    return Result(
        data=_json(message.data_json),
        text=message.text,
        skill_id=message.skill_id,
        trace_id=message.trace_id,
        latency_ms=meta.latency_ms,
        worker_id=meta.worker_id,
        version=meta.version,
        truncated=meta.truncated,
        repairs=tuple(Repair(it.path, it.kind, it.before_json, it.after_json) for it in meta.repairs),
        warnings=tuple(meta.warnings),
        artifacts=tuple(artifact(it) for it in message.artifacts),
        defaults=tuple(meta.defaults),
    )


def event(message: Any) -> Event:
    """An event. The result of a call that failed raises its error."""
    kind = message.WhichOneof("event") or ""
    it = getattr(message, kind) if kind else None
    match kind:
        case "progress":
            return Event(kind, fraction=it.fraction if it.fraction >= 0 else None, message=it.message)
        case "log":
            return Event(kind, level=it.level, message=it.message)
        case "partial":
            return Event(kind, data=_json(it.data_json))
        case "artifact":
            return Event(kind, artifact=artifact(it))
        case "input_required":
            return Event(kind, request_id=it.request_id, message=it.message, schema=_json(it.schema_json) or {})
        case "result":
            return Event(kind, result=result(it))
        case _:
            return Event(kind)


def numbered_event(message: Any) -> Event:
    """An event of an operation."""
    return replace(event(message.event), number=message.number)


def outcome(operation: Any) -> Result:
    """The result of an operation that has ended, or its error raised."""
    for carried in [operation.response, *operation.error.details]:
        if carried.type_url.rpartition("/")[2] == "openskill.v1.SkillResult":
            return result(message_class("SkillResult").FromString(carried.value))
    raise of_operation(operation.error)


def skill(message: Any) -> Skill:
    status = enum_name("SkillStatus", message.status)
    return Skill(
        id=message.id,
        version=message.version,
        description=message.description,
        toolset=message.toolset,
        input_schema=_json(message.input_schema_json) or {},
        output_schema=_json(message.output_schema_json) or {},
        idempotent=message.idempotent,
        destructive=message.destructive,
        available=status == "SKILL_STATUS_AVAILABLE",
        reason=message.status_reason,
    )
