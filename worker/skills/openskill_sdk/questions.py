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


def ask(message: str, schema: dict[str, Any] | None = None, key: str = "") -> dict[str, Any]:
    """Asks the user and waits for the answer, a dict, at most until the call's deadline.

    `schema` is the JSON Schema of the answer: an object with one property per value. The host checks answers against it.
    `key` names the question to clients of MCP. Raises Declined if the user does not answer, and SkillError with
    ASK_USER_UNAVAILABLE if nobody can be asked.
    """
    return _content(_exchange([_named(key, form(message, schema))])[0], "elicitation")


def sample(messages: str | list[dict[str, Any]], max_tokens: int = 1000, key: str = "", **options: Any) -> dict[str, Any]:
    """Asks the model of a caller that speaks MCP for a message: a dict with `role`, `content` and `model`.

    `messages` is a text, or messages as MCP writes them. `options` are further parameters of `sampling/createMessage`, such
    as `systemPrompt`. Raises as `ask` does.
    """
    return _content(_exchange([_named(key, sampling(messages, max_tokens, **options))])[0], "sampling")


def roots(key: str = "") -> list[dict[str, Any]]:
    """The folders that the user of a caller which speaks MCP works in: dicts with `uri` and maybe `name`. Raises as `ask` does."""
    found = _content(_exchange([_named(key, ROOTS)])[0], "roots").get("roots")
    return found if isinstance(found, list) else []


def open_url(message: str, url: str, key: str = "") -> None:
    """Asks the user of a caller that speaks MCP to open a URL, to sign in for example. Raises as `ask` does."""
    question = {"kind": "url", "message": str(message), "params": {"url": str(url)}}
    _content(_exchange([_named(key, question)])[0], "elicitation")


def ask_together(questions: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any] | None]:
    """Asks several questions at once, by their keys: each is a `form(...)`, a `sampling(...)` or `ROOTS`.

    Returns the answers by the same keys: None for a question that the user did not answer or the caller can't answer.
    Raises SkillError with ASK_USER_UNAVAILABLE if it can answer none of them.
    """
    answers = _exchange([_named(key, question) for key, question in questions.items()])
    if answers and all(answer.get("action") == "unavailable" for answer in answers):
        first = next(iter(questions.values()))
        raise _unavailable(str(answers[0].get("reason")), _CAPABILITIES[first.get("kind", "form")])
    contents = [answer.get("content") if answer.get("action") == "accept" else None for answer in answers]
    return {key: content if isinstance(content, dict) else None for key, content in zip(questions, contents)}


def form(message: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A question for `ask_together`, as `ask` asks it."""
    return {"message": str(message), **({} if schema is None else {"schema": schema})}


def sampling(messages: str | list[dict[str, Any]], max_tokens: int = 1000, **options: Any) -> dict[str, Any]:
    """A question for `ask_together`, as `sample` asks it."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
    return {"kind": "sampling", "params": {"messages": messages, "maxTokens": int(max_tokens), **options}}


#: A question for `ask_together`, as `roots` asks it.
ROOTS: dict[str, Any] = {"kind": "roots"}

_CAPABILITIES = {"form": "elicitation", "url": "elicitation", "sampling": "sampling", "roots": "roots"}


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
            raise invalid(f"questions[{index}].id", "is also the id of another question")
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


def _named(key: str, question: dict[str, Any]) -> dict[str, Any]:
    return {**question, "key": str(key)} if key else question


def _content(answer: dict[str, Any], capability: str) -> dict[str, Any]:
    """What the answer says, or the error that it is."""
    action, content = answer.get("action"), answer.get("content")
    if action == "accept" and isinstance(content, dict):
        return content
    if action in ("decline", "cancel"):
        raise Declined(action)
    raise _unavailable(answer.get("reason") or "the caller can't answer", capability)


def _exchange(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sends questions and reads their answers, which come in any order."""
    global _count
    if not questions:
        return []
    capability = _CAPABILITIES[questions[0].get("kind", "form")]
    descriptor, mark = channel()
    if descriptor is None or mark or not _is_socket(descriptor) or _is_shared():
        raise _unavailable("this skill runs where it cannot receive an answer", capability)
    with _lock:
        names = [f"{os.getpid()}-{_count + number}" for number in range(1, len(questions) + 1)]
        _count += len(questions)
        asked = [{"id": name, **question} for name, question in zip(names, questions)]
        if not emit({"input_required": asked[0] if len(asked) == 1 else asked}):
            raise _unavailable("the host does not listen", capability)
        answers: dict[Any, dict[str, Any]] = {}
        while len(answers) < len(names):
            answer = _read_answer(descriptor)
            if answer.get("id") in names:
                answers[answer["id"]] = answer
        return [answers[name] for name in names]


def _read_answer(descriptor: int) -> dict[str, Any]:
    global _unread
    while b"\n" not in _unread:
        chunk = b"" if len(_unread) > MAX_LINE_BYTES else _receive(descriptor)
        if not chunk:
            raise _unavailable("the host closed the connection", "elicitation")
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


def _unavailable(reason: str, capability: str) -> SkillError:
    return SkillError(UNAVAILABLE, f"the user cannot be asked: {reason}", capability=capability)
