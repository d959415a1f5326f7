"""When a call is made again."""

import random
import time
from dataclasses import dataclass

from .errors import CallError


@dataclass(frozen=True)
class RetryPolicy:
    """Retries a call only if the gateway says that it is safe: the skill did not run, is idempotent, or the call has an
    idempotency key. A connection that is lost during a call is no such case, unless the call has a key.

    Waits as long as the gateway asks for, else with exponential backoff and full jitter; never beyond the deadline.
    """

    #: Attempts in all. 1: never retry.
    max_attempts: int = 3
    #: The first wait at most, in seconds. It doubles with each attempt.
    initial_backoff: float = 0.1
    #: The longest wait, in seconds. A call that the gateway asks to wait for longer is not retried.
    max_backoff: float = 10.0

    def wait(self, error: CallError, attempt: int, has_key: bool, deadline: float) -> float | None:
        """How long to wait before the next attempt. None: there is none.

        `attempt`: the one that failed, from 1 on. `deadline`: by `time.monotonic()`.
        """
        # With a key, a second call gets the result of the first one, or runs if that never arrived.
        lost = has_key and error.code == "UNAVAILABLE"
        if attempt >= self.max_attempts or not (error.retryable or lost):
            return None
        wait = error.retry_after
        if wait > self.max_backoff:
            return None
        # Callers that were refused together should not return together.
        wait += random.uniform(0, min(self.initial_backoff * 2 ** (attempt - 1), self.max_backoff))
        return wait if time.monotonic() + wait < deadline else None

