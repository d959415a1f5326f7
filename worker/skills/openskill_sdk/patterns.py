"""Regular expressions written by a caller, made safe to run.

Python's engine backtracks, so that `(a+)+b` needs 2^n steps on n letters. Two guards: an expression in
which a repetition holds something of variable length is refused, and whatever remains runs under a
limit on processor time.
"""

from __future__ import annotations

import re
import signal
import warnings
from contextlib import contextmanager

from .errors import invalid

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_LENGTH = 200
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def compile_pattern(text: str, field: str) -> re.Pattern[str]:
    """Compiles `text`, or refuses it with a reason that its author can act on."""
    if len(text) > MAX_LENGTH:
        raise invalid(field, f"must have at most {MAX_LENGTH} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(text)
            tree = _parser().parse(text)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise invalid(field, f"is not a valid regular expression: {error}") from None
    _refuse_nested(tree, False, field)
    return pattern


@contextmanager
def processor_limit(seconds: float, field: str) -> Iterator[None]:
    """Ends the block with INVALID_ARGUMENT for `field` once it has used so much processor time."""
    def over(*_: object) -> None:
        raise invalid(field, f"needs more than {seconds} s on this input; make it more specific, "
                      r"e.g. \d{4} instead of \d+")

    try:
        before = signal.signal(signal.SIGVTALRM, over)
    except ValueError:  # not in the main thread: the host's time limit is the only one
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _parser() -> Any:
    try:
        from re import _parser  # type: ignore[attr-defined]  # not public, and elsewhere before Python 3.11
    except ImportError:
        import sre_parse as _parser
    return _parser


def _refuse_nested(tree: Any, repeated: bool, field: str) -> None:
    for op, value in tree:
        name = str(op)
        if repeated and (name in ("BRANCH", "GROUPREF", "GROUPREF_EXISTS")
                         or (name in _REPEATS and value[0] != value[1])):
            raise invalid(field, "repeats a part that is itself of variable length, as in (a+)+ or (a|ab)*, "
                          r"which can take very long; write it out, e.g. \d{2}:\d{2}")
        inside = repeated or (name in _REPEATS and value[1] > 1)
        for part in _parts(value):
            _refuse_nested(part, inside, field)


def _parts(value: Any) -> Iterator[Any]:
    """The sub-expressions in the argument of a parsed operation."""
    if hasattr(value, "getwidth"):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _parts(item)
