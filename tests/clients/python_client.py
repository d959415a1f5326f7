"""What programs do with openskill_client, against the gateway that OPENSKILL_ADDRESS names."""

import asyncio
import os
import time
import unittest
from datetime import datetime, timedelta, timezone

from openskill_client import AsyncClient, CallError, Client, RetryPolicy

ADDRESS = os.environ["OPENSKILL_ADDRESS"]
LARGE = 12345678901234567890


class Blocking(unittest.TestCase):
    def setUp(self):
        self.client = Client(ADDRESS, timeout=30)
        self.addCleanup(self.client.close)

    def test_a_call_returns_data_and_says_what_was_repaired(self):
        result = self.client.call("calculator", {"numbers": "[3, 4]", "ops": ["max"]}, trace_id="run-7")
        self.assertEqual((result.data["results"]["max"], result.trace_id), (4, "run-7"))
        self.assertEqual([(it.path, it.kind) for it in result.repairs], [("/numbers", "string_to_array")])
        self.assertEqual(result.defaults, ())
        self.assertEqual(self.client.call("file_search", {"query": "copper", "glob": "*.txt"}).defaults, ("/limit",))

    def test_a_models_own_words_are_a_call(self):
        raw = '{"name": "echo", "arguments": {"text": "hi"}}'
        self.assertEqual(self.client.call_raw(raw).data, {"echoed": "hi"})

    def test_refused_arguments_say_what_is_wrong_and_that_nothing_ran(self):
        with self.assertRaises(CallError) as raised:
            self.client.call("echo", {"text": [LARGE]}, strict=True)
        error = raised.exception
        self.assertEqual((error.code, error.blame, error.may_have_run), ("INVALID_ARGUMENT", "caller", False))
        self.assertTrue(error.details["violations"])
        self.assertEqual(error.attempts, 1)

    def test_a_skill_that_nobody_has_is_not_found(self):
        with self.assertRaisesRegex(CallError, "NOT_FOUND"):
            self.client.call("no_such_skill")

    def test_a_stream_ends_with_its_result(self):
        events = list(self.client.stream("echo", {"text": "hi"}))
        self.assertEqual((events[0].kind, events[-1].kind), ("accepted", "result"))
        self.assertEqual(events[-1].result.data, {"echoed": "hi"})

    def test_a_question_is_answered(self):
        events = self.client.stream("ask_user", {"questions": [{"id": "q", "text": "Which?"}]}, interactive=True)
        for event in events:
            if event.kind == "input_required":
                self.assertTrue(event.schema)
                self.client.answer(event.request_id, "accept", {"q": "this"})
        self.assertEqual(event.result.data["answers"], [{"id": "q", "answer": "this"}])

    def test_skills_and_tools_are_listed(self):
        skills = {it.id: it for it in self.client.skills()}
        self.assertTrue(skills["echo"].available and skills["echo"].input_schema["properties"]["text"])
        self.assertIn("browser_use", {it.toolset for it in skills.values() if not it.available})
        tools = self.client.tools("anthropic", query="largest of some numbers", limit=3)
        self.assertIn("calculator", [it["name"] for it in tools])
        with self.assertRaises(ValueError):
            self.client.tools("nobody's")

    def test_the_same_key_gets_the_first_result(self):
        first = self.client.call("echo", {"text": "hi"}, idempotency_key="python-1")
        again = self.client.call("echo", {"text": "hi"}, idempotency_key="python-1")
        self.assertFalse(first.warnings)
        self.assertTrue(again.warnings)

    def test_a_stored_call_is_waited_for_and_found_again_by_its_name(self):
        submitted = self.client.submit("echo", {"text": "hi"}, trace_id="run-8", idempotency_key="python-2")
        again = self.client.submit("echo", {"text": "hi"}, trace_id="run-8", idempotency_key="python-2")
        self.assertEqual(submitted.name, again.name)
        found = self.client.operation(submitted.name.removeprefix("operations/"))
        result = found.result(timeout=30)
        self.assertEqual((result.data, result.trace_id, found.done()), ({"echoed": "hi"}, "run-8", True))
        events = list(found.events())
        self.assertEqual([it.number for it in events], list(range(1, len(events) + 1)))
        self.assertEqual((events[-1].kind, events[-1].result.data), ("result", {"echoed": "hi"}))
        self.assertEqual(list(found.events(after=events[-1].number)), [])

    def test_a_stored_call_that_is_scheduled_is_cancelled(self):
        later = datetime.now(timezone.utc) + timedelta(hours=1)
        operation = self.client.submit("echo", {"text": "hi"}, start_at=later)
        with self.assertRaises(TimeoutError):
            operation.result(timeout=0)
        operation.cancel()
        with self.assertRaises(CallError) as raised:
            operation.result(timeout=30)
        self.assertEqual((raised.exception.code, raised.exception.may_have_run), ("CANCELLED", False))

    def test_a_call_that_cannot_be_stored_says_what_is_wrong(self):
        with self.assertRaises(CallError) as raised:
            self.client.submit("echo", {"txt": "hi"})
        self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")
        self.assertIn("text", raised.exception.message)

    def test_a_gateway_that_is_not_there_is_an_error_at_the_deadline(self):
        with Client("127.0.0.1:1", timeout=0.5) as nobody, self.assertRaises(CallError) as raised:
            nobody.call("echo", {"text": "hi"})
        self.assertEqual(raised.exception.code, "TIMEOUT")


class Waiting(unittest.IsolatedAsyncioTestCase):
    async def test_many_calls_at_once(self):
        async with AsyncClient(ADDRESS, timeout=30) as client:
            calls = [client.call("echo", {"text": str(it)}) for it in range(50)]
            results = await asyncio.gather(*calls)
        self.assertEqual([it.data["echoed"] for it in results], [str(it) for it in range(50)])

    async def test_a_stream_and_a_failure(self):
        async with AsyncClient(ADDRESS, timeout=30) as client:
            kinds = [event.kind async for event in client.stream("echo", {"text": "hi"})]
            self.assertEqual((kinds[0], kinds[-1]), ("accepted", "result"))
            with self.assertRaises(CallError) as raised:
                await client.call("echo", {}, strict=True)
        self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")


    async def test_a_stored_call(self):
        async with AsyncClient(ADDRESS, timeout=30) as client:
            operation = await client.submit("echo", {"text": "hi"})
            self.assertEqual([it.kind async for it in operation.events()][-1], "result")
            self.assertTrue(await operation.done())
            await operation.cancel()
            self.assertEqual((await operation.result()).data, {"echoed": "hi"})


class Retries(unittest.TestCase):
    """The decision alone: what a gateway says decides."""

    def wait(self, error, attempt=1, has_key=False, left=60.0):
        return RetryPolicy().wait(error, attempt, has_key, time.monotonic() + left)

    def test_only_what_is_safe_is_repeated(self):
        refused = CallError("OVERLOADED", "full", retryable=True, retry_after=1.0, may_have_run=False)
        self.assertGreaterEqual(self.wait(refused), 1.0)
        self.assertIsNone(self.wait(refused, attempt=3))
        self.assertIsNone(self.wait(refused, left=0.5), "the deadline comes first")
        self.assertIsNone(self.wait(CallError("CIRCUIT_OPEN", "", retryable=True, retry_after=60.0)))
        lost = CallError("UNAVAILABLE", "connection reset")
        self.assertIsNone(self.wait(lost), "it may have run")
        self.assertIsNotNone(self.wait(lost, has_key=True))
        self.assertIsNone(self.wait(CallError("INVALID_ARGUMENT", ""), has_key=True))

    def test_a_status_of_the_gateway_says_more_than_its_code(self):
        with Client(ADDRESS) as client, self.assertRaises(CallError) as raised:
            client.call("echo", {"text": "hi"}, session="x" * 200)
        self.assertEqual((raised.exception.code, raised.exception.may_have_run), ("INVALID_ARGUMENT", False))


if __name__ == "__main__":
    unittest.main()
