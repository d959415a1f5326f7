"""Questions to the user in the middle of a call.

A question is an event. The host writes the answer, one JSON line, to the same descriptor, which is a socket. Where there
is no such socket nobody can be asked: in a container, in a shared interpreter, and when the skill is run by hand.
"""

from __future__ import annotations

import _thread
import json
import os
import stat
import sys

from .arguments import Fields
from .errors import SkillError, invalid
from .events import channel, emit

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from typing import Any

UNAVAILABLE = "ASK_USER_UNAVAILABLE"
MAX_LINE_BYTES = 1024 * 1024

_lock = _thread.allocate_lock()
_count = 0
_unread = b""


class Declined(SkillError):
    """The user declined to answer, or dismissed the question: `action` is decline or cancel."""

    def __init__(self, action: str) -> None:
        said = "declined to answer" if action == "decline" else "dismissed the question"
        super().__init__(UNAVAILABLE, f"the user {said}", action=action)
        self.action = action


def ask(message: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Asks the user and waits for the answer, a dict, at most until the call's deadline.

    `schema` is the JSON Schema of the answer: an object with one property per value. The host checks answers against it.
    Raises Declined if the user does not answer, and SkillError with ASK_USER_UNAVAILABLE if nobody can be asked.
    """
    answer = _exchange({"message": str(message), **({} if schema is None else {"schema": schema})})
    action = answer.get("action")
    content = answer.get("content")
    if action == "accept" and isinstance(content, dict):
        return content
    if action in ("decline", "cancel"):
        raise Declined(action)
    raise _unavailable(answer.get("reason") or "the caller takes no questions")


def ask_user(questions: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Asks several questions at once: `[{"id", "text", "type", "options"?, "required"?}]`.

    Types: text, number, integer, boolean, choice (one of `options`), choices (some of `options`).
    Returns `{"answers": [{"id", "answer"}]}` in the order of the questions; a question left open has the answer None.
    """
    properties, required, texts = {}, [], []
    for index, question in enumerate(questions):
        fields = Fields(question, f"questions[{index}].") if isinstance(question, dict) else None
        if fields is None:
            raise invalid(f"questions[{index}]", "must be an object")
        name = fields.string("id", required=True, min_length=1, max_length=128)
        text = fields.string("text", required=True, min_length=1)
        options = fields.array("options", low=1, high=1000, default=None)
        kind = fields.string("type", default="text" if options is None else "choice", choices=(*_TYPES, *_CHOICES))
        if name in properties:
            raise invalid(f"questions[{index}].id", "is the id of another question too")
        if kind in _CHOICES and options is None:
            raise invalid(f"questions[{index}].options", f"is required for a question of type {kind}")
        if fields.boolean("required", default=False):
            required.append(name)
        fields.done()
        properties[name] = {**_schema(kind, options), "title": text}
        texts.append(text)
    if not properties:
        return {"answers": []}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    message = texts[0] if len(texts) == 1 else "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
    content = ask(message, schema)
    return {"answers": [{"id": name, "answer": content.get(name)} for name in properties]}


_TYPES = {"text": "string", "number": "number", "integer": "integer", "boolean": "boolean"}
_CHOICES = ("choice", "choices")


def _schema(kind: str, options: list[Any] | None) -> dict[str, Any]:
    if kind == "choices":
        return {"type": "array", "items": {"enum": options}}
    schema = {"type": _TYPES[kind]} if kind in _TYPES else {}
    return schema if options is None else {**schema, "enum": options}


def _exchange(question: dict[str, Any]) -> dict[str, Any]:
    """Sends a question and reads its answer."""
    global _count
    descriptor, mark = channel()
    if descriptor is None or mark or not _is_socket(descriptor) or _is_shared():
        raise _unavailable("this skill runs where it cannot receive an answer")
    with _lock:
        _count += 1
        name = f"{os.getpid()}-{_count}"
        if not emit({"input_required": {"id": name, **question}}):
            raise _unavailable("the host does not listen")
        while True:
            answer = _read_answer(descriptor)
            if answer.get("id") == name:
                return answer


def _read_answer(descriptor: int) -> dict[str, Any]:
    global _unread
    while b"\n" not in _unread:
        chunk = b"" if len(_unread) > MAX_LINE_BYTES else _receive(descriptor)
        if not chunk:
            raise _unavailable("the host hung up")
        _unread += chunk
    line, _unread = _unread.split(b"\n", 1)
    try:
        answer = json.loads(line)["answer"]
    except (ValueError, KeyError, TypeError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _receive(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 64 * 1024)
    except OSError:
        return b""


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _is_shared() -> bool:
    """An interpreter that serves many calls has its input in memory, and no way to receive an answer."""
    try:
        sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return True
    return False


def _unavailable(reason: str) -> SkillError:
    return SkillError(UNAVAILABLE, f"the user cannot be asked: {reason}")
