"""`@skill`: a function that is a skill.

A worker reads the decorator, the signature and the docstring from the file's text, and calls the function by its name. The
decorator itself leaves the function as it is, so that tests call it as any other.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeVar, overload

    F = TypeVar("F", bound=Callable[..., Any])

    @overload
    def skill(function: F, /) -> F: ...

    @overload
    def skill(
        *,
        id: str = ...,
        description: str = ...,
        version: str = ...,
        title: str = ...,
        icons: list[dict[str, Any]] = ...,
        toolset: str = ...,
        read_only: bool = ...,
        idempotent: bool = ...,
        destructive: bool = ...,
        repeatable: bool = ...,
        untrusted: bool = ...,
        approval: Literal["ask", "never"] = ...,
        timeout: float = ...,
        timeout_ms: int = ...,
        concurrency: int = ...,
        affinity: Literal["none", "session", "caller"] = ...,
        isolation: Literal["fork", "process", "shared"] = ...,
        requirements: list[str] | str = ...,
        python: dict[str, Any] = ...,
        env: list[str] | dict[str, Any] = ...,
        limits: dict[str, int] = ...,
        jail: str = ...,
        network: str | list[int] = ...,
        readable: list[str] = ...,
        allowed_root: str = ...,
        input_schema: dict[str, Any] = ...,
        output_schema: dict[str, Any] = ...,
        parameters: dict[str, Any] = ...,
        arguments: dict[str, Any] = ...,
        examples: list[dict[str, Any]] = ...,
        circuit: dict[str, Any] = ...,
        task: dict[str, Any] = ...,
        prompts: list[dict[str, Any]] = ...,
        resources: list[dict[str, Any]] = ...,
        unavailable: str = ...,
    ) -> Callable[[F], F]: ...


def skill(function: Any = None, /, **settings: Any) -> Any:
    """Makes a function a skill: `@skill`, or `@skill(read_only=True)`.

    `settings` are keys of the manifest, as literals; `timeout` is in seconds, `requirements` is `python.requirements`. The
    function's name is the skill's id, its annotations are the schema of the arguments, and its docstring the description.
    """
    return function if function is not None else _unchanged


def _unchanged(function: Any) -> Any:
    return function
