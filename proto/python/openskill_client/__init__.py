"""A client for openskill: calls skills over gRPC.

    from openskill_client import Client

    with Client("127.0.0.1:8000") as client:
        result = client.call("echo", {"text": "hi"}, timeout=5)
        print(result.data)

- `Client` blocks; `AsyncClient` is the same for `asyncio`.
- A call that fails raises `CallError`: its `code`, and whether the skill `may_have_run`.
- `submit` stores a call that outlives the program, and returns an `Operation`.
- Calls are retried only where the gateway says that it is safe: see `RetryPolicy`.
"""

from .aio import AsyncClient
from .client import Client
from .errors import CallError
from .operations import AsyncOperation, Operation
from .results import Artifact, Event, Repair, Result, Skill
from .retry import RetryPolicy

__all__ = [
    "Artifact",
    "AsyncClient",
    "AsyncOperation",
    "CallError",
    "Client",
    "Event",
    "Operation",
    "Repair",
    "Result",
    "RetryPolicy",
    "Skill",
]
