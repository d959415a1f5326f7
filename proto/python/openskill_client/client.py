"""The client that blocks."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from . import contract, requests, results
from .channel import Target
from .errors import CallError, of_status
from .operations import Operation
from .requests import DEFAULT_TIMEOUT
from .retry import RetryPolicy


class Client:
    """A connection to a gateway. Threads may share it. Close it, or use it with `with`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ca: str | Path | None = None,
        certificate: tuple[str | Path, str | Path] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
    ) -> None:
        """`timeout`: of calls that name none, in seconds."""
        target = Target(url, token, ca, certificate)
        self._timeout, self._retry = timeout, retry or RetryPolicy()
        self._metadata = target.metadata()
        self._channel = target.open(grpc)
        self._stubs = contract.Stubs(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and the calls that run on it."""
        self._channel.close()

    def call(
        self,
        skill: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        session: str = "",
        idempotency_key: str = "",
        trace_id: str = "",
        traceparent: str = "",
        strict: bool = False,
    ) -> results.Result:
        """Calls a skill and waits for its result. Raises `CallError` if it fails.

        `timeout`: for all attempts together, in seconds. `idempotency_key`: a second call with it gets the first one's
        result, so a lost connection is retried too. `trace_id`, `traceparent`: continue a trace. `strict`: refuse
        arguments that do not match the schema, in place of repairing them.
        """
        call = requests.call(
            skill,
            arguments,
            timeout=self._timeout if timeout is None else timeout,
            session=session,
            idempotency_key=idempotency_key,
            trace_id=trace_id,
            traceparent=traceparent,
            strict=strict,
        )
        return self._run(call, self._stubs.invoke, results.result)

    def call_raw(self, text: str, *, timeout: float | None = None, session: str = "") -> results.Result:
        """Runs a model's tool call as it wrote it: a tool-call object of a provider, or the XML-wrapped form."""
        timeout = self._timeout if timeout is None else timeout
        call = requests.call("", text, timeout=timeout, session=session)
        return self._run(call, self._stubs.invoke, results.result)

    def stream(
        self,
        skill: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        session: str = "",
        trace_id: str = "",
        interactive: bool = False,
    ) -> Iterator[results.Event]:
        """Calls a skill and yields its events; the last is `result`. Raises `CallError` if the call fails. Not retried.

        `interactive`: the program answers `input_required` events, by `answer`. Closing the iterator cancels the call.
        """
        timeout = self._timeout if timeout is None else timeout
        call = requests.call(
            skill, arguments, timeout=timeout, session=session, trace_id=trace_id, interactive=interactive
        )
        metadata = self._metadata + call.metadata
        events = self._stubs.stream(call.request, timeout=call.left(), metadata=metadata, wait_for_ready=True)
        try:
            for event in events:
                yield results.event(event)
        except grpc.RpcError as status:
            raise of_status(status) from None
        finally:
            events.cancel()

    def submit(
        self,
        skill: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        start_at: datetime | None = None,
        webhook: str = "",
        session: str = "",
        idempotency_key: str = "",
        trace_id: str = "",
        traceparent: str = "",
        strict: bool = False,
    ) -> Operation:
        """Stores a call that runs even if this program or the gateway ends, and returns once it is stored. Raises
        `CallError` if the gateway refuses it, such as for its arguments.

        `timeout`: of each run, in seconds; by default that of the skill. `start_at`: when it runs at the earliest.
        `webhook`: the URL that the gateway tells of its end.
        `idempotency_key`: a second call with it is the first operation, so a lost connection is retried too.
        """
        call = requests.call(
            skill,
            arguments,
            timeout=self._timeout,
            session=session,
            idempotency_key=idempotency_key,
            trace_id=trace_id,
            traceparent=traceparent,
            strict=strict,
        )
        call = requests.submission(call, timeout, start_at, webhook)
        return self._run(call, self._stubs.submit, lambda it: self.operation(it.name))

    def operation(self, name: str) -> Operation:
        """An operation that was submitted before, by its name. Asks no gateway."""
        return Operation(name, self._stubs, self._metadata, self._timeout)

    def answer(self, request_id: str, action: str, content: Mapping[str, Any] | None = None) -> None:
        """Answers a question: `accept` with its content, `decline` or `cancel`."""
        self._ask(self._stubs.answer, requests.answer(request_id, action, content))

    def skills(self, toolset: str = "") -> list[results.Skill]:
        """The skills that this client may call, by id."""
        listed = self._ask(self._stubs.list, contract.LIST_SKILLS.request(toolset=toolset))
        return [results.skill(it) for it in listed.skills]

    def tools(
        self, dialect: str = "openai", *, toolset: str = "", query: str = "", limit: int = 0
    ) -> list[dict[str, Any]]:
        """The skills as tool definitions for a model: `openai`, `openai-responses`, `anthropic`, `gemini`, `dashscope`
        or `mcp`. `query`: a task in words, for the tools that fit it, best first.
        """
        exported = self._ask(self._stubs.export, requests.tools(dialect, toolset, query, limit))
        return [json.loads(tool) for tool in exported.tools_json]

    def read_artifact(self, artifact: results.Artifact) -> bytes:
        """The content of an artifact. A large one is fetched in parts."""
        if artifact.content is not None:
            return artifact.content
        content = bytearray()
        while True:
            part = self._ask(self._stubs.read, requests.part(artifact.handle, len(content)))
            content += part.data
            if not part.data or len(content) >= part.size_bytes:
                return bytes(content)

    def _run(self, call: requests.Call, method: Any, read: Callable[[Any], Any]) -> Any:
        attempt = 1
        while True:
            try:
                return read(self._once(call, method))
            except CallError as error:
                error.attempts = attempt
                wait = self._retry.wait(error, attempt, call.has_key, call.deadline)
                if wait is None:
                    raise
            attempt += 1
            time.sleep(wait)

    def _once(self, call: requests.Call, method: Any) -> Any:
        try:
            return method(
                call.request, timeout=call.left(), metadata=self._metadata + call.metadata, wait_for_ready=True
            )
        except grpc.RpcError as status:
            raise of_status(status) from None

    def _ask(self, method: Any, request: Any) -> Any:
        """A request that starts nothing. It fails at once if there is no gateway."""
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as status:
            raise of_status(status) from None
