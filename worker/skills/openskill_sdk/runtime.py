"""`run`: one call, from stdin to stdout.

Exit codes: 0 success, 1 the call was refused, 2 stdin was not JSON, 3 the skill itself failed.
"""

from __future__ import annotations

import json
import os
import sys

from .arguments import kind
from .errors import SkillError, invalid

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any, NoReturn

MAX_OUTPUT_BYTES = 10_000_000
# Characters of an exception that callers see.
MAX_REASON = 500


class Result:
    """A handler's answer. `truncated` means that there was more than `data` shows; `text` is one line for a model."""

    def __init__(self, data: object, truncated: bool = False, text: str = "") -> None:
        self.data = data
        self.truncated = truncated
        self.text = text


def run(handler: Callable[[dict[str, Any]], object]) -> NoReturn:
    """Answers one call with `handler` and ends the process."""
    out = _reserve_stdout()
    try:
        answer, code = _answer(handler, sys.stdin.buffer.read()), 0
    except SkillError as error:
        answer, code = _refusal(error), error.exit_code()
    except (Exception, SystemExit) as error:
        _report(error)
        answer, code = _refusal(SkillError("INTERNAL", _outside_message(error))), 3
    try:
        with out:
            out.write(answer)
    except BrokenPipeError:
        code = 3
    sys.exit(code)


def _answer(handler: Callable[[dict[str, Any]], object], raw: bytes) -> bytes:
    value = handler(_read_input(raw))
    result = value if isinstance(value, Result) else Result(value)
    meta = {"truncated": True} if result.truncated else {}
    text = {"text": result.text} if result.text else {}
    answer = _encode({"success": True, "data": result.data, "error": None, "meta": meta, **text})
    if len(answer) > MAX_OUTPUT_BYTES:
        raise SkillError("OUTPUT_TOO_LARGE", "the result is larger than 10 MB; ask for less at once",
                         bytes=len(answer), limit=MAX_OUTPUT_BYTES)
    return answer


def _refusal(error: SkillError) -> bytes:
    fault = {"code": error.code, "message": error.message, "details": error.details}
    return _encode({"success": False, "data": None, "error": fault})


def _encode(value: object) -> bytes:
    # Half of a surrogate pair is not valid in JSON: it becomes a question mark.
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain) + "\n").encode("utf-8", "replace")


def _plain(value: Any) -> object:
    """What stands in JSON for a value that has no form there of its own."""
    module = {name: sys.modules[name] for name in ("dataclasses", "enum") if name in sys.modules}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=False)  # as its schema has them
    if "dataclasses" in module and module["dataclasses"].is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in module["dataclasses"].fields(value)}
    if "enum" in module and isinstance(value, module["enum"].Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, os.PathLike) or type(value).__module__ == "uuid":
        return str(value)
    raise TypeError(f"the result contains a {type(value).__name__}, which is not a JSON value")


def _read_input(raw: bytes) -> dict[str, Any]:
    try:
        call = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_unique_keys)
        if b"\\u" in raw:
            json.dumps(call, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise SkillError("INVALID_JSON", "stdin is not UTF-8 text") from None
    except UnicodeEncodeError:
        raise SkillError("INVALID_JSON", "a string on stdin contains half of a surrogate pair") from None
    except RecursionError:
        raise SkillError("INVALID_JSON", "the JSON on stdin is nested too deeply") from None
    except ValueError as error:
        raise SkillError("INVALID_JSON", f"stdin is not a JSON value: {error}") from None
    if not isinstance(call, dict) or not isinstance(call.get("input"), dict):
        found = kind(call) if not isinstance(call, dict) else f"input of type {kind(call.get('input'))}"
        raise invalid("input", f'stdin must be {{"input": {{...}}}}, not {found}')
    given: dict[str, Any] = call["input"]
    return given


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return values


def _reserve_stdout() -> IO[bytes]:
    """Reserves stdout for the result: from here on, descriptor 1 and `print` lead to stderr."""
    if sys.stdout is not None and not _has_descriptor(sys.stdout):  # an interpreter that serves many calls
        out, sys.stdout = sys.stdout.buffer, sys.stderr
        return out
    out = os.fdopen(os.dup(1), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    sys.stdout = sys.stderr
    return out


def _has_descriptor(stream: IO[str]) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError):
        return False
    return True


def _outside_message(error: BaseException) -> str:
    """Says what failed, with the names of files but not of the folders they are in: those are the host's."""
    text = " ".join(_without_folders(str(error)).split())[:MAX_REASON]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"the skill failed unexpectedly ({reason})"


def _without_folders(text: str) -> str:
    import re

    return re.sub(r"(?<![\w:/.~-])/[^\s'\":,;()]*/(?=[^\s/'\":,;()])", "", text)


def _report(error: BaseException) -> None:
    """One JSON line on stderr, with file names but without the folders they are in."""
    import traceback

    frames = [f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
              for frame in traceback.extract_tb(error.__traceback__)]
    text = _without_folders(str(error))[:2000]
    line = {"level": "error", "message": "unexpected exception in the skill",
            "exception": type(error).__name__, "text": text, "frames": frames[-20:]}
    try:
        print(json.dumps(line), file=sys.stderr, flush=True)
    except (OSError, AttributeError, ValueError):
        pass
