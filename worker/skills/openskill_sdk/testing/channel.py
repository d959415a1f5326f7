"""Reads a skill's events and answers its questions: the other end of the descriptor in OPENSKILL_EVENTS_FD."""

from __future__ import annotations

import base64
import binascii
import json
import socket
import unicodedata
from typing import Any, Callable, Iterable, Iterator, Union

from .judge import no_constant
from .outcome import Artifact, Outcome

MAX_EVENTS = 10_000
MAX_LINE_BYTES = 64 * 1024
MAX_ARTIFACT_BYTES = 10 * 1024 * 1024

#: The answers to a skill's questions in their order, or a function that takes a question and gives its answer. An answer
#: is what the user filled in, a dict; or "decline", or "cancel". Without an answer, nobody can be asked.
Answers = Union[Iterable[Union[dict[str, Any], str]], Callable[[dict[str, Any]], Union[dict[str, Any], str, None]]]


class Channel:
    """One end of the socket. `attend` reads until the skill and all that it started have closed the other end."""

    def __init__(self, ours: socket.socket, answers: Answers) -> None:
        self._ours = ours
        self._answer = answers if callable(answers) else _in_order(iter(answers))
        self._dropped = 0
        self._parts: dict[str, tuple[str, str, bytearray]] = {}
        self.outcome = Outcome(True)

    def attend(self) -> None:
        for number, line in enumerate(_lines(self._ours)):
            if number >= MAX_EVENTS or line is None or not self._take(line):
                self._dropped += 1
        if self._dropped:
            reason = "malformed, too long, or too many"
            self.outcome.warnings.append(f"{self._dropped} events of the skill were dropped: {reason}")
        for name, _, _ in self._parts.values():
            self.outcome.warnings.append(f"the artifact '{name}' was dropped: its last part did not arrive")

    def _take(self, line: bytes) -> bool:
        """Takes one event. Whether it is one."""
        try:
            event = json.loads(line.decode("utf-8"), parse_constant=no_constant)
        except ValueError:
            return False
        if not isinstance(event, dict) or len(event) != 1:
            return False
        (kind, value), = event.items()
        if kind == "partial":
            self.outcome.partials.append(value)
            return True
        if kind == "input_required" and isinstance(value, list):
            return all([isinstance(question, dict) and self._question(question) for question in value])
        readers = {"progress": self._progress, "log": self._log, "artifact": self._artifact,
                   "input_required": self._question}
        return kind in readers and isinstance(value, dict) and readers[kind](value)

    def _progress(self, value: dict[str, Any]) -> bool:
        fraction, message = value.get("fraction"), value.get("message", "")
        is_number = isinstance(fraction, (int, float)) and not isinstance(fraction, bool)
        if not (fraction is None or is_number) or not isinstance(message, str):
            return False
        shown = -1.0 if fraction is None else min(1.0, max(0.0, float(fraction)))
        self.outcome.progress.append({"fraction": shown, "message": message})
        return True

    def _log(self, value: dict[str, Any]) -> bool:
        level, message = value.get("level", ""), value.get("message")
        if not isinstance(level, str) or not isinstance(message, str):
            return False
        known = level in ("debug", "info", "warning", "error")
        self.outcome.logs.append({"level": level if known else "info", "message": message})
        return True

    def _artifact(self, value: dict[str, Any]) -> bool:
        texts = [value.get("id"), value.get("name", ""), value.get("media_type", ""), value.get("data", "")]
        more = value.get("more", False)
        if not all(isinstance(text, str) for text in texts) or not isinstance(more, bool) or not _is_id(texts[0]):
            return False
        key, name, media_type, data = (str(text) for text in texts)
        try:
            chunk = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return False
        name, media_type, content = self._parts.pop(key, (name, media_type, bytearray()))
        content += chunk
        if more:
            self._parts[key] = (name, media_type, content)
        elif len(content) > MAX_ARTIFACT_BYTES:
            reason = f"it is larger than {MAX_ARTIFACT_BYTES} bytes"
            self.outcome.warnings.append(f"the artifact '{name}' was dropped: {reason}")
        else:
            self.outcome.artifacts.append(Artifact(name.rsplit("/", 1)[-1], media_type, bytes(content)))
        return True

    def _question(self, value: dict[str, Any]) -> bool:
        if not _is_id(value.get("id")) or not isinstance(value.get("message", ""), str):
            return False
        self.outcome.questions.append(value)
        given = self._answer(value)
        answer: dict[str, Any] = {"id": value["id"]}
        if given is None:
            reason = "the caller can't answer: call as a stream with `interactive`, or `openskill invoke --interactive`"
            answer.update(action="unavailable", reason=reason)
        elif isinstance(given, dict):
            answer.update(action="accept", content=given)
        else:
            answer.update(action=given)
        try:
            self._ours.sendall(json.dumps({"answer": answer}).encode("utf-8") + b"\n")
        except OSError:  # it has ended: it reads no answer
            pass
        return True


def _in_order(answers: Iterator[dict[str, Any] | str]) -> Callable[[dict[str, Any]], dict[str, Any] | str | None]:
    return lambda question: next(answers, None)


def _is_id(value: Any) -> bool:
    has_controls = isinstance(value, str) and any(unicodedata.category(character) == "Cc" for character in value)
    return isinstance(value, str) and 0 < len(value.encode("utf-8", "replace")) <= 128 and not has_controls


def _lines(source: socket.socket) -> Iterator[bytes | None]:
    """The lines, None for one that is too long. What comes after the last line break is no line."""
    unread, skips = b"", False
    while True:
        try:
            chunk = source.recv(64 * 1024)
        except OSError:
            return
        if not chunk:
            return
        unread += chunk
        *lines, unread = unread.split(b"\n")
        for line in lines:
            if not skips:
                yield line if len(line) < MAX_LINE_BYTES else None
            skips = False
        if len(unread) >= MAX_LINE_BYTES:
            if not skips:
                yield None
            unread, skips = b"", True
