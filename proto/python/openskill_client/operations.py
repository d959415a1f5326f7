"""Calls that outlive the program that made them: the gateway stores them until they have ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc

from . import contract, requests, results
from .errors import CallError, of_status

#: How long one request waits at most, in seconds. A longer wait is several of them.
WAIT = 60.0

#: How much longer the answer to it may take, in seconds.
_GRACE = 10.0

#: How long to try to reach a gateway again after the connection was lost, in seconds.
RECONNECT_WITHIN = 120.0

_FIRST_PAUSE, _MAX_PAUSE = 0.2, 5.0

#: What a request ends with if its connection was lost, or if no gateway takes it.
_LOST = ("UNAVAILABLE", "TIMEOUT")


class Patience:
    """How long to go on waiting, and whether to connect again."""

    def __init__(self, timeout: float | None) -> None:
        """`timeout`: in seconds. None: without end, as long as the gateway can be reached."""
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._lost_since: float | None = None
        self._pause = _FIRST_PAUSE

    def left(self) -> float:
        """How long the next request may wait, in seconds."""
        return WAIT if self._deadline is None else min(max(self._deadline - time.monotonic(), 0.0), WAIT)

    def reached(self) -> None:
        """A gateway takes requests."""
        self._lost_since = None

    def answered(self) -> None:
        """A gateway has sent what it was asked for."""
        self._lost_since, self._pause = None, _FIRST_PAUSE

    def pause(self, error: CallError) -> float:
        """How long to pause before the next request, in seconds. Raises the error if no other would help."""
        now = time.monotonic()
        self._lost_since = now if self._lost_since is None else self._lost_since
        is_late = now - self._lost_since >= RECONNECT_WITHIN or (self._deadline is not None and now >= self._deadline)
        if is_late or not (error.retryable or error.code in _LOST):
            raise error
        pause, self._pause = self._pause, min(self._pause * 2, _MAX_PAUSE)
        return pause if self._deadline is None else min(pause, max(self._deadline - now, 0.0))


class Operation:
    """A call that the gateway runs, even if this program ends. `Client.submit` and `Client.operation` make it."""

    def __init__(self, name: str, stubs: contract.Stubs, metadata: Any, timeout: float) -> None:
        #: `operations/` and the id. `Client.operation` finds the operation by it, also in another program.
        self.name = requests.operation_name(name)
        self._stubs, self._metadata, self._timeout = stubs, metadata, timeout

    def __repr__(self) -> str:
        return f"Operation({self.name!r})"

    def result(self, timeout: float | None = None) -> results.Result:
        """Waits for the result. Raises `CallError` if the call failed or was cancelled, `TimeoutError` if it has not
        ended after `timeout` seconds. Connects again if the connection is lost.
        """
        patience = Patience(timeout)
        while True:
            wait = patience.left()
            try:
                request = requests.wait(self.name, wait)
                operation = self._ask(self._stubs.wait_operation, request, wait + _GRACE)
            except CallError as error:
                time.sleep(patience.pause(error))
                continue
            patience.answered()
            if operation.done:
                return results.outcome(operation)
            if patience.left() == 0.0:
                raise TimeoutError(f"{self.name} has not ended after {timeout} seconds")

    def done(self) -> bool:
        """Whether it has ended."""
        request = contract.GET_OPERATION.request(name=self.name)
        return self._ask(self._stubs.get_operation, request, self._timeout).done

    def cancel(self) -> None:
        """Cancels it. Has no effect if it has ended. Its result then is a `CallError` with the code `CANCELLED`."""
        request = contract.CANCEL_OPERATION.request(name=self.name)
        self._ask(self._stubs.cancel_operation, request, self._timeout)

    def events(self, after: int = 0) -> Iterator[results.Event]:
        """Yields the events after this number; the last is `result`. Raises `CallError` if the call fails. Connects again
        if the connection is lost. Closing the iterator does not cancel the call.
        """
        patience = Patience(None)
        while True:
            try:
                had_ended = self.done()
                patience.reached()
            except CallError as error:
                time.sleep(patience.pause(error))
                continue
            request = contract.WATCH_OPERATION.request(name=self.name, after=after)
            stream = self._stubs.watch_operation(request, metadata=self._metadata)
            try:
                for message in stream:
                    patience.answered()
                    after = message.number
                    event = results.numbered_event(message)
                    yield event
                    if event.kind == "result":
                        return
                if had_ended:  # The program has the event of the result.
                    return
                error = CallError("UNAVAILABLE", "the gateway closed the stream without a result")
            except grpc.RpcError as status:
                error = of_status(status)
            finally:
                stream.cancel()
            time.sleep(patience.pause(error))

    def _ask(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as status:
            raise of_status(status) from None


class AsyncOperation:
    """The same for `asyncio`. `AsyncClient.submit` and `AsyncClient.operation` make it."""

    def __init__(self, name: str, stubs: contract.Stubs, metadata: Any, timeout: float) -> None:
        #: `operations/` and the id. `AsyncClient.operation` finds the operation by it, also in another program.
        self.name = requests.operation_name(name)
        self._stubs, self._metadata, self._timeout = stubs, metadata, timeout

    def __repr__(self) -> str:
        return f"AsyncOperation({self.name!r})"

    async def result(self, timeout: float | None = None) -> results.Result:
        """Waits for the result. Raises `CallError` if the call failed or was cancelled, `TimeoutError` if it has not
        ended after `timeout` seconds. Connects again if the connection is lost. Cancelling the task does not cancel the
        call.
        """
        patience = Patience(timeout)
        while True:
            wait = patience.left()
            try:
                request = requests.wait(self.name, wait)
                operation = await self._ask(self._stubs.wait_operation, request, wait + _GRACE)
            except CallError as error:
                await asyncio.sleep(patience.pause(error))
                continue
            patience.answered()
            if operation.done:
                return results.outcome(operation)
            if patience.left() == 0.0:
                raise TimeoutError(f"{self.name} has not ended after {timeout} seconds")

    async def done(self) -> bool:
        """Whether it has ended."""
        request = contract.GET_OPERATION.request(name=self.name)
        return (await self._ask(self._stubs.get_operation, request, self._timeout)).done

    async def cancel(self) -> None:
        """Cancels it. Has no effect if it has ended. Its result then is a `CallError` with the code `CANCELLED`."""
        request = contract.CANCEL_OPERATION.request(name=self.name)
        await self._ask(self._stubs.cancel_operation, request, self._timeout)

    async def events(self, after: int = 0) -> AsyncIterator[results.Event]:
        """Yields the events after this number; the last is `result`. Raises `CallError` if the call fails. Connects again
        if the connection is lost. Closing the iterator does not cancel the call.
        """
        patience = Patience(None)
        while True:
            try:
                had_ended = await self.done()
                patience.reached()
            except CallError as error:
                await asyncio.sleep(patience.pause(error))
                continue
            request = contract.WATCH_OPERATION.request(name=self.name, after=after)
            stream = self._stubs.watch_operation(request, metadata=self._metadata)
            try:
                async for message in stream:
                    patience.answered()
                    after = message.number
                    event = results.numbered_event(message)
                    yield event
                    if event.kind == "result":
                        return
                if had_ended:  # The program has the event of the result.
                    return
                error = CallError("UNAVAILABLE", "the gateway closed the stream without a result")
            except grpc.RpcError as status:
                error = of_status(status)
            finally:
                stream.cancel()
            await asyncio.sleep(patience.pause(error))

    async def _ask(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as status:
            raise of_status(status) from None
