"""What a call that failed raises, made from a result or from a gRPC status."""

import json
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from .contract import enum_name

# `ErrorInfo.domain` of the gateway's statuses.
_DOMAIN = "openskill.dev"

# The codes of statuses that do not come from the gateway: of the connection, a proxy, or this client.
_CODES = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "TIMEOUT",
    grpc.StatusCode.CANCELLED: "CANCELLED",
    grpc.StatusCode.UNAVAILABLE: "UNAVAILABLE",
    grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED",
    grpc.StatusCode.PERMISSION_DENIED: "PERMISSION_DENIED",
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID_ARGUMENT",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
}


@dataclass(eq=False)
class CallError(Exception):
    """A call failed."""

    #: The code, such as `INVALID_ARGUMENT`. `docs/errors.md` lists all.
    code: str
    #: What happened and what to do about it.
    message: str
    #: For programs, such as the violations of the arguments.
    details: dict[str, Any] | None = None
    #: Who has to act: `caller`, `skill`, `worker` or `gateway`. Empty if nobody knows.
    blame: str = ""
    #: Whether the same call may succeed later, and repeating it is safe.
    retryable: bool = False
    #: How long to wait before that, in seconds. 0 if nobody knows.
    retry_after: float = 0.0
    #: Whether the skill may have had an effect.
    may_have_run: bool = True
    #: The trace id of the call. Empty if the call did not reach a gateway.
    trace_id: str = ""
    #: How often the call was made.
    attempts: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def of_result(error: Any, trace_id: str) -> CallError:
    """The error of a `SkillResult`."""
    details = json.loads(error.details_json) if error.details_json else None
    return CallError(
        code=enum_name("ErrorCode", error.code),
        message=error.message,
        details=details,
        blame=enum_name("Blame", error.blame).removeprefix("BLAME_").lower(),
        retryable=error.retryable,
        retry_after=error.retry_after_ms / 1000,
        may_have_run=error.may_have_run,
        trace_id=trace_id,
    )


def of_status(status: grpc.RpcError) -> CallError:
    """The error of a gRPC status. One that the gateway did not send leaves open whether the skill ran."""
    code, message = status.code(), status.details() or ""
    metadata = dict(status.trailing_metadata() or ())
    error = CallError(code=_CODES.get(code, code.name), message=message)
    trace_id = metadata.get("x-trace-id", "")
    error.trace_id = trace_id if isinstance(trace_id, str) else ""
    for detail in _details(metadata.get("grpc-status-details-bin", b"")):
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == _DOMAIN:
            error.code = info.reason
            error.may_have_run = info.metadata.get("may_have_run") != "false"
        elif detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry):
            error.retryable = True
            error.retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return error


def of_operation(status: Any) -> CallError:
    """The error of an operation that carries no `SkillResult`. `status`: a `google.rpc.Status`."""
    code = next((it for it in grpc.StatusCode if it.value[0] == status.code), grpc.StatusCode.UNKNOWN)
    return CallError(code=_CODES.get(code, code.name), message=status.message)


def _details(encoded: str | bytes) -> list[Any]:
    try:
        return list(status_pb2.Status.FromString(encoded if isinstance(encoded, bytes) else encoded.encode()).details)
    except DecodeError:  # A proxy may have changed them; the code and the message are there all the same.
        return []
