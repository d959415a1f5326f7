"""Calls a function that is a skill: converts arguments to the types of its parameters."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import sys
import types
import typing
from typing import Any, Callable, NoReturn

from .arguments import kind
from .context import Context
from .errors import SkillError, invalid
from .runtime import run

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_WRAPPERS = ("Annotated", "Required", "NotRequired", "ReadOnly", "Final")
_SEQUENCES: dict[Any, Callable[[Any], Any]] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, collections.abc.Set: set, collections.abc.MutableSet: set,
    collections.abc.Sequence: list, collections.abc.MutableSequence: list, collections.abc.Iterable: list,
    collections.abc.Collection: list,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def run_function(module: types.ModuleType, code: types.CodeType, name: str) -> NoReturn:
    """Runs a file's code in its module, answers one call with one of its functions, and ends the process."""

    def handle(given: dict[str, Any]) -> object:
        exec(code, module.__dict__)
        function = getattr(module, name, None)
        if not callable(function):
            raise SkillError("INTERNAL", f"the skill's file has no function '{name}'")
        return call(function, given)

    run(handle)


def call(function: Callable[..., Any], given: dict[str, Any]) -> object:
    """Calls a function with a caller's arguments, and waits for it if it is asynchronous."""
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    positional, named, unknown = [], {}, dict(given)
    for parameter in parameters.values():
        hint = hints.get(parameter.name, Any)
        if _is_context(parameter, hint):
            value: Any = Context()
        elif parameter.name in unknown:
            value = convert(unknown.pop(parameter.name), hint, parameter.name)
        elif parameter.default is parameter.empty:
            raise invalid(parameter.name, "is required")
        else:
            value = parameter.default
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    for name in unknown:
        raise invalid(name, "is not a parameter of this skill")
    result = function(*positional, **named)
    if inspect.isawaitable(result):
        import asyncio

        return asyncio.run(_awaited(result))
    return result


async def _awaited(result: Any) -> Any:
    return await result


def _is_context(parameter: inspect.Parameter, hint: Any) -> bool:
    if parameter.annotation is parameter.empty:
        return parameter.name == "context"
    return hint is Context or typing.get_origin(hint) in _UNIONS and Context in typing.get_args(hint)


def _hints(holder: Any) -> dict[str, Any]:
    """The types of a function's parameters, or of a class's fields. Of one that can't be evaluated, those of the rest."""
    try:
        return typing.get_type_hints(holder, include_extras=True)
    except Exception:
        pass
    found = {}
    names = getattr(inspect.unwrap(holder) if callable(holder) else holder, "__globals__", None)
    if names is None:
        names = vars(sys.modules[holder.__module__]) if holder.__module__ in sys.modules else {}
    for name, hint in getattr(holder, "__annotations__", {}).items():
        try:
            found[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
        except Exception:
            found[name] = Any
    return found


def convert(value: Any, hint: Any, name: str) -> Any:
    """The value of a JSON value as this type. Raises INVALID_ARGUMENT if it is none; `name` is the argument's."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__value__"):  # `type X = ...`
        return convert(value, hint.__value__, name)
    if _is_wrapper(origin):
        return convert(value, inner[0], name)
    if origin in _UNIONS:
        return _one_of(value, inner, name)
    if origin is typing.Literal:
        return _literal(value, inner, name)
    if hasattr(hint, "__supertype__"):
        return convert(value, hint.__supertype__, name)
    if (origin or hint) in _SEQUENCES:
        return _items(_expect(isinstance(value, list), value, name, "a list"), origin or hint, inner, name)
    if (origin or hint) in _MAPPINGS:
        _expect(isinstance(value, dict), value, name, "an object")
        return {key: convert(it, inner[1], f"{name}.{key}") for key, it in value.items()} if len(inner) == 2 else value
    if hint is None or hint is type(None):
        return _expect(value is None, value, name, "null")
    return _convert_to_class(value, hint, name) if isinstance(hint, type) else value


def _is_wrapper(origin: Any) -> bool:
    # The file may import typing_extensions later than this module.
    modules = (typing, sys.modules.get("typing_extensions"))
    return origin is not None and any(origin is getattr(module, name, None) for module in modules for name in _WRAPPERS)


def _literal(value: Any, wanted: tuple[Any, ...], name: str) -> Any:
    """A literal, or the member of an enumeration with this value."""
    for it in wanted:
        plain = it.value if isinstance(it, enum.Enum) else it
        if type(plain) in (type(value), tuple) and _as_tuple(value) == _as_tuple(plain):
            return it
    raise invalid(name, f"must be one of {wanted}, not {kind(value)}")


def _as_tuple(value: Any) -> Any:
    """Lists as tuples, which JSON does not have."""
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value


def _one_of(value: Any, hints: tuple[Any, ...], name: str) -> Any:
    if type(value) in hints:
        return value
    first: SkillError | None = None
    for hint in hints:
        try:
            return convert(value, hint, name)
        except SkillError as error:
            # The refusal of an object's field says more than that of the whole.
            if first is None or len(str(error.details.get("field"))) > len(str(first.details.get("field"))):
                first = error
    raise first or invalid(name, "has no type")


def _items(value: list[Any], origin: Any, inner: tuple[Any, ...], name: str) -> Any:
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        _expect(len(value) == len(inner), value, name, f"a list of {len(inner)} items")
        return tuple(convert(it, hint, f"{name}[{at}]") for at, (it, hint) in enumerate(zip(value, inner)))
    hint = inner[0] if inner else Any
    # Not every type can be in a set.
    return _parse(_SEQUENCES[origin], [convert(it, hint, f"{name}[{at}]") for at, it in enumerate(value)], name)


def _convert_to_class(value: Any, hint: Any, name: str) -> Any:
    if hint is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(_expect(is_number, value, name, "a number"))
    if hint is int:
        is_whole = isinstance(value, int) or isinstance(value, float) and value.is_integer()
        return int(_expect(is_whole and not isinstance(value, bool), value, name, "a whole number"))
    if hint in (str, bool):
        return _expect(isinstance(value, hint), value, name, "a string" if hint is str else "true or false")
    if hasattr(hint, "model_validate"):
        return _parse(hint.model_validate, value, name)
    if issubclass(hint, enum.Enum):
        return _parse(hint, next((it for it in hint if _as_tuple(it.value) == _as_tuple(value)), value), name)
    if dataclasses.is_dataclass(hint):
        return _parse_fields(value, hint, [it.name for it in dataclasses.fields(hint) if it.init], name)
    if typing.is_typeddict(hint) if hasattr(typing, "is_typeddict") else hasattr(hint, "__total__"):
        hints = _hints(hint)
        _expect(isinstance(value, dict), value, name, "an object")
        return {key: convert(it, hints.get(key, Any), f"{name}.{key}") for key, it in value.items()}
    if (hint.__module__, hint.__name__) in (("datetime", "datetime"), ("datetime", "date")):
        _expect(isinstance(value, str), value, name, "a string")
        return _parse(hint.fromisoformat, value[:-1] + "+00:00" if value[-1:] in ("Z", "z") else value, name)
    if hint.__module__.split(".")[0] in ("pathlib", "uuid"):
        return _parse(hint, _expect(isinstance(value, str), value, name, "a string"), name)
    return value


def _parse_fields(value: Any, hint: Any, fields: list[str], name: str) -> Any:
    _expect(isinstance(value, dict), value, name, "an object")
    hints = _hints(hint)
    for key in value:
        if key not in fields:
            raise invalid(f"{name}.{key}", "is not a field")
    missing = [it.name for it in dataclasses.fields(hint) if it.init and it.name not in value
               and it.default is dataclasses.MISSING and it.default_factory is dataclasses.MISSING]
    if missing:
        raise invalid(f"{name}.{missing[0]}", "is required")
    given = {key: convert(it, hints.get(key, Any), f"{name}.{key}") for key, it in value.items()}
    return _parse(lambda it: hint(**it), given, name)


def _parse(parse: Callable[[Any], Any], value: Any, name: str) -> Any:
    """Refuses what a type refuses."""
    try:
        return parse(value)
    except (TypeError, ValueError) as error:
        found = error.errors()[0] if hasattr(error, "errors") else {}  # of Pydantic
        field = ".".join([name, *map(str, found.get("loc", ()))])
        raise invalid(field, " ".join(str(found.get("msg", error)).split())[:500] or "is not valid") from None


def _expect(fits: bool, value: Any, name: str, wanted: str) -> Any:
    if not fits:
        raise invalid(name, f"must be {wanted}, not {kind(value)}")
    return value
