"""Reads the caller's input field by field and refuses what does not fit, naming the field and the reason.

Every reader takes `required=True` or a `default`, and gives the value. A skill checks its arguments itself: it may be
run by hand, or by a host that does not know its schema.
"""

from __future__ import annotations

import math

from .errors import invalid

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, TypeVar, overload

    T = TypeVar("T")

_REQUIRED: Any = object()


def kind(value: object) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names: tuple[tuple[Any, str], ...] = (((int, float), "number"), (str, "string"), (list, "array"), (dict, "object"))
    for types, name in names:
        if isinstance(value, types):
            return name
    return type(value).__name__


class Fields:
    """Typed access to an object. `prefix` is put before field names in messages, for nested objects.

    For type checkers: without a default, a value of the declared type comes back, and otherwise perhaps the default.
    """

    def __init__(self, values: dict[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._known: list[str] = []

    def name(self, key: str) -> str:
        return self._prefix + key

    if TYPE_CHECKING:
        @overload
        def boolean(self, key: str, *, required: bool = ...) -> bool: ...

        @overload
        def boolean(self, key: str, default: T, required: bool = ...) -> bool | T: ...

    def boolean(self, key: str, default: Any = _REQUIRED, required: bool = False) -> Any:
        """True or false."""
        return self._take(key, "boolean", default, required)

    if TYPE_CHECKING:
        @overload
        def string(
            self, key: str, *, required: bool = ..., min_length: int = ..., max_length: int | None = ...,
            choices: Collection[str] | None = ...,
        ) -> str: ...

        @overload
        def string(
            self, key: str, default: T, required: bool = ..., min_length: int = ..., max_length: int | None = ...,
            choices: Collection[str] | None = ...,
        ) -> str | T: ...

    def string(
        self, key: str, default: Any = _REQUIRED, required: bool = False, min_length: int = 0,
        max_length: int | None = None, choices: Collection[str] | None = None,
    ) -> Any:
        """A text, within bounds, or one of `choices`."""
        text = self._take(key, "string", default, required)
        if not isinstance(text, str):
            return text
        if choices is not None and text not in choices:
            raise invalid(self.name(key), "must be one of " + ", ".join(f"'{choice}'" for choice in choices))
        if len(text) < min_length:
            raise invalid(self.name(key), "must not be empty" if min_length == 1
                          else f"must have at least {min_length} characters")
        if max_length is not None and len(text) > max_length:
            raise invalid(self.name(key), f"must have at most {max_length} characters")
        return text

    if TYPE_CHECKING:
        @overload
        def number(
            self, key: str, low: float | None = ..., high: float | None = ..., *, required: bool = ...
        ) -> float: ...

        @overload
        def number(
            self, key: str, low: float | None = ..., high: float | None = ..., *, default: T, required: bool = ...
        ) -> float | T: ...

    def number(
        self, key: str, low: float | None = None, high: float | None = None, default: Any = _REQUIRED,
        required: bool = False,
    ) -> Any:
        """Any finite number from `low` to `high`; None is no bound."""
        number = self._take(key, "number", default, required)
        if isinstance(number, float) and not math.isfinite(number):
            raise invalid(self.name(key), "must be finite")
        return self._bounded(key, number, low, high)

    if TYPE_CHECKING:
        @overload
        def integer(self, key: str, low: int | None = ..., high: int | None = ..., *, required: bool = ...) -> int: ...

        @overload
        def integer(
            self, key: str, low: int | None = ..., high: int | None = ..., *, default: T, required: bool = ...
        ) -> int | T: ...

    def integer(
        self, key: str, low: int | None = None, high: int | None = None, default: Any = _REQUIRED,
        required: bool = False,
    ) -> Any:
        """A whole number from `low` to `high`; None is no bound."""
        number = self._take(key, "number", default, required, expected="a whole number")
        if isinstance(number, float) and number.is_integer():  # 20.0 is an integer in JSON Schema
            number = int(number)
        if isinstance(number, float):
            raise invalid(self.name(key), "must be a whole number")
        return self._bounded(key, number, low, high)

    if TYPE_CHECKING:
        @overload
        def array(self, key: str, low: int = ..., high: int = ..., *, required: bool = ...) -> list[Any]: ...

        @overload
        def array(
            self, key: str, low: int = ..., high: int = ..., *, default: T, required: bool = ...
        ) -> list[Any] | T: ...

    def array(
        self, key: str, low: int = 0, high: int = 100_000, default: Any = _REQUIRED, required: bool = False
    ) -> Any:
        """A list of `low` to `high` items of any type, for the caller to check."""
        items = self._take(key, "array", default, required)
        if isinstance(items, list) and not low <= len(items) <= high:
            raise invalid(self.name(key), f"must have {low} to {high} items, not {len(items)}")
        return items

    if TYPE_CHECKING:
        @overload
        def object(self, key: str, *, required: bool = ...) -> Fields: ...

        @overload
        def object(self, key: str, default: T, required: bool = ...) -> Fields | T: ...

    def object(self, key: str, default: Any = _REQUIRED, required: bool = False) -> Any:
        """A nested object as Fields, or the default. Call its `done` as well."""
        value = self._take(key, "object", default, required)
        return Fields(value, self.name(key) + ".") if isinstance(value, dict) else value

    def any(self, key: str) -> Any:
        """A required value of any type, for the caller to check."""
        return self._take(key, None, _REQUIRED, True)

    def items(self) -> list[tuple[str, Any]]:
        """All keys and values, for an object whose keys are the caller's own."""
        self._known.extend(self._values)
        return list(self._values.items())

    def done(self) -> None:
        """Refuses whatever was not asked for."""
        for key in self._values:
            if key not in self._known:
                known = ", ".join(f"'{self.name(name)}'" for name in self._known)
                raise invalid(self.name(key), f"is not a field of this skill; its fields are {known}")

    def _bounded(self, key: str, number: Any, low: float | None, high: float | None) -> Any:
        if number is None or ((low is None or low <= number) and (high is None or number <= high)):
            return number
        if low is not None and high is not None:
            raise invalid(self.name(key), f"must be from {low} to {high}")
        raise invalid(self.name(key), f"must be at least {low}" if high is None else f"must be at most {high}")

    def _take(
        self, key: str, wanted: str | None, default: Any, required: bool, expected: str | None = None
    ) -> Any:
        self._known.append(key)
        if key not in self._values:
            if required or default is _REQUIRED:
                raise invalid(self.name(key), "is required")
            return default
        value = self._values[key]
        if wanted is not None and kind(value) != wanted:
            article = "an" if wanted[0] in "aeio" else "a"
            raise invalid(self.name(key), f"must be {expected or f'{article} {wanted}'}, not {kind(value)}")
        return value
