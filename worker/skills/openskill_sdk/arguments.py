"""Reads the caller's input field by field and refuses what does not fit, naming the field and the reason.

Every reader takes `required=True` or a `default`, and gives the value. A skill checks its arguments itself: it may be
run by hand, or by a host that does not know its schema.
"""

import math

from .errors import invalid

_REQUIRED = object()


def kind(value):
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for types, name in (((int, float), "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, types):
            return name
    return type(value).__name__


class Fields:
    """Typed access to an object. `prefix` is put before field names in messages, for nested objects."""

    def __init__(self, values, prefix=""):
        self._values = values
        self._prefix = prefix
        self._known = []

    def name(self, key):
        return self._prefix + key

    def boolean(self, key, default=_REQUIRED, required=False):
        """True or false."""
        return self._take(key, "boolean", default, required)

    def string(self, key, default=_REQUIRED, required=False, min_length=0, max_length=None, choices=None):
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

    def number(self, key, low=None, high=None, default=_REQUIRED, required=False):
        """Any finite number from `low` to `high`; None is no bound."""
        number = self._take(key, "number", default, required)
        if isinstance(number, float) and not math.isfinite(number):
            raise invalid(self.name(key), "must be finite")
        return self._bounded(key, number, low, high)

    def integer(self, key, low=None, high=None, default=_REQUIRED, required=False):
        """A whole number from `low` to `high`; None is no bound."""
        number = self._take(key, "number", default, required, expected="a whole number")
        if isinstance(number, float) and number.is_integer():  # 20.0 is an integer in JSON Schema
            number = int(number)
        if isinstance(number, float):
            raise invalid(self.name(key), "must be a whole number")
        return self._bounded(key, number, low, high)

    def array(self, key, low=0, high=100_000, default=_REQUIRED, required=False):
        """A list of `low` to `high` items of any type, for the caller to check."""
        items = self._take(key, "array", default, required)
        if isinstance(items, list) and not low <= len(items) <= high:
            raise invalid(self.name(key), f"must have {low} to {high} items, not {len(items)}")
        return items

    def object(self, key, default=_REQUIRED, required=False):
        """A nested object as Fields, or the default. Call its `done` as well."""
        value = self._take(key, "object", default, required)
        return Fields(value, self.name(key) + ".") if isinstance(value, dict) else value

    def any(self, key):
        """A required value of any type, for the caller to check."""
        return self._take(key, None, _REQUIRED, True)

    def items(self):
        """All keys and values, for an object whose keys are the caller's own."""
        self._known.extend(self._values)
        return list(self._values.items())

    def done(self):
        """Refuses whatever was not asked for."""
        for key in self._values:
            if key not in self._known:
                known = ", ".join(f"'{self.name(name)}'" for name in self._known)
                raise invalid(self.name(key), f"is not a field of this skill; its fields are {known}")

    def _bounded(self, key, number, low, high):
        if number is None or ((low is None or low <= number) and (high is None or number <= high)):
            return number
        if low is not None and high is not None:
            raise invalid(self.name(key), f"must be from {low} to {high}")
        raise invalid(self.name(key), f"must be at least {low}" if high is None else f"must be at most {high}")

    def _take(self, key, wanted, default, required, expected=None):
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
