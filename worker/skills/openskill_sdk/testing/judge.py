"""Judges what a skill printed and its exit code, by the rules of a worker (worker/src/normalize.rs)."""

from __future__ import annotations

import base64
import binascii
import json
import re
import signal
from typing import Any

from .outcome import Artifact, Outcome, failed

MAX_DEPTH = 64
MAX_TEXT_BYTES = 4096
MAX_DETAILS_BYTES = 64 * 1024

#: The codes that a skill may report.
CODES = frozenset((
    "INVALID_ARGUMENT", "INVALID_JSON", "NOT_FOUND", "FORBIDDEN_PATH", "PERMISSION_DENIED", "TIMEOUT", "INTERNAL",
    "TOOL_INVOCATION_ERROR", "EXECUTION_ERROR", "OUTPUT_TOO_LARGE", "NETWORK_ERROR", "ASK_USER_UNAVAILABLE",
    "MCP_PARAM_ERROR", "MCP_PARSE_ERROR", "MCP_EXECUTION_ERROR", "MCP_NETWORK_ERROR", "MCP_TIMEOUT", "MCP_NOT_FOUND",
))
_BY_EXIT = {1: "INVALID_ARGUMENT", 2: "INVALID_JSON", 3: "INTERNAL"}
_SIGNALS: dict[int, str] = {
    signal.SIGABRT: "SIGABRT",
    signal.SIGKILL: "SIGKILL (killed, or out of memory)",
    signal.SIGSEGV: "SIGSEGV",
    signal.SIGPIPE: "SIGPIPE",
    signal.SIGTERM: "SIGTERM",
    signal.SIGXCPU: "SIGXCPU (over its CPU time)",
    signal.SIGXFSZ: "SIGXFSZ (wrote a file over the limit)",
}


class _Invalid(Exception):
    """Why stdout is not one JSON value."""


def judge(stdout: bytes, status: int, leftovers: int) -> Outcome:
    """`status` is the exit code, or a signal as a negative number; `leftovers` how many processes were left running."""
    if status < 0:
        return _broke(f"the skill was killed by {_SIGNALS.get(-status, f'signal {-status}')}")
    if leftovers > 0:
        return _broke(f"the skill left {leftovers} process(es) running when it ended; they were killed: "
                      "a skill must wait for every process that it starts")
    try:
        text = stdout.decode("utf-8")
    except UnicodeDecodeError:
        return _broke(f"the skill's output is not UTF-8 (exit code {status})")
    if not text.strip(" \t\n\r\f"):
        look = "" if status == 0 else "; its stderr is in the worker's log at level debug"
        return _broke(f"the skill printed nothing on stdout (exit code {status}){look}")
    try:
        value = _one_value(text)
    except _Invalid as reason:
        return _broke(f"the skill's output {reason} (exit code {status})")
    if isinstance(value, dict) and isinstance(value.get("success"), bool):
        return _of_report(value, status)
    return _of_bare_value(value, status)


def _broke(message: str) -> Outcome:
    return failed("EXECUTION_ERROR", message)


def _one_value(text: str) -> Any:
    if _depth(text) > MAX_DEPTH:
        raise _Invalid(f"is nested deeper than {MAX_DEPTH} levels")
    start = len(text) - len(text.lstrip(" \t\n\r"))
    decoder = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=_unique_keys)
    try:
        value, end = decoder.raw_decode(text, start)
    except ValueError as error:
        raise _Invalid(f"is not valid JSON: {error}") from None
    if text[end:].strip(" \t\n\r\f"):
        raise _Invalid("contains more than one JSON value: a skill must print exactly one")
    return value


def _depth(text: str) -> int:
    """How deep brackets nest, outside of strings."""
    deepest = depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[][{}]', text, re.DOTALL):
        if found[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in "]}":
            depth -= 1
    return deepest


def no_constant(name: str) -> None:
    """Refuses NaN and Infinity, which Python's reader takes."""
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Invalid(f"has a key more than once, '{twice}': keep only one")
    return values


def _of_report(report: dict[str, Any], status: int) -> Outcome:
    error = report.get("error")
    if report["success"]:
        if error is not None:
            return _broke(f"the skill's output reports both a success and an error (exit code {status})")
        if status != 0:
            return _broke(f"the skill reported success but its exit code was {status}")
        outcome = Outcome(True, data=report.get("data"))
    elif error is None:
        reason = "reports a failure without an error that says why"
        return _broke(f"the skill's output {reason} (exit code {status})")
    else:
        outcome = _of_error(error)
    meta = report["meta"] if isinstance(report.get("meta"), dict) else {}
    outcome.text = _cut(report.get("text"))
    outcome.version = _cut(meta.get("version"))
    outcome.truncated = meta.get("truncated") is True
    _take_listed(report.get("artifacts"), outcome)
    return outcome


def _of_error(error: Any) -> Outcome:
    fields = error if isinstance(error, dict) else {"message": error}
    message, code, details = _text(fields.get("message")), fields.get("code"), fields.get("details")
    if message is None:
        message = "the skill failed and gave no readable message"
    known = code if isinstance(code, str) and code in CODES else None
    if isinstance(code, int) and not isinstance(code, bool):
        known = _BY_EXIT.get(code)
    outcome = failed(known or "EXECUTION_ERROR", _cut(message))
    if known is None and isinstance(code, (str, int, float)) and not isinstance(code, bool):
        outcome.warnings.append(f"the skill returned the unknown error code '{_cut(str(code))}'")
    if isinstance(details, dict):
        if _size(details) > MAX_DETAILS_BYTES:
            outcome.warnings.append(f"the error's details were dropped because they exceed {MAX_DETAILS_BYTES} bytes")
        else:
            outcome.details = details
    return outcome


def _of_bare_value(value: Any, status: int) -> Outcome:
    if status == 0:
        return Outcome(True, data=value)
    outcome = failed(_BY_EXIT.get(status, "EXECUTION_ERROR"), f"the skill ended with exit code {status}")
    if _size(value) <= MAX_DETAILS_BYTES:
        outcome.details = {"output": value}
    return outcome


def _take_listed(listed: Any, outcome: Outcome) -> None:
    """Takes the artifacts that a result lists itself."""
    if listed is None:
        return
    if not isinstance(listed, list):
        outcome.warnings.append("the result's artifacts were dropped: they are not a list")
        return
    artifacts = [artifact for artifact in map(_listed, listed) if artifact is not None]
    outcome.artifacts.extend(artifacts)
    if len(artifacts) < len(listed):
        malformed = len(listed) - len(artifacts)
        outcome.warnings.append(f"{malformed} artifacts of the result were dropped: each needs `data` in base64")


def _listed(entry: Any) -> Artifact | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("data"), str):
        return None
    try:
        data = base64.b64decode(entry["data"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return Artifact(str(entry.get("name", "")), str(entry.get("media_type", "")), data)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _text(value: Any) -> str | None:
    """A string that is text: none if it holds half of a surrogate pair."""
    if not isinstance(value, str):
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return value


def _cut(value: Any) -> str:
    return (_text(value) or "").encode("utf-8")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
