"""Questions and artifacts of skills, with the test as the host.

python3 -m unittest discover -s worker/skills/tests
"""

import base64
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from host import SKILLS, play, write_skill


class Channel(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="skill-test-")).resolve()
        self.addCleanup(shutil.rmtree, self.work)

    def play(self, body, answers=()):
        return play(write_skill(self.work, body), answers)


class Questions(Channel):
    def test_an_answer_comes_back_as_a_dict(self):
        schema = {"type": "object", "properties": {"file": {"type": "string"}}}
        result, events = self.play(
            f"return ask('Which file?', {schema})", [{"action": "accept", "content": {"file": "a.txt"}}]
        )
        self.assertEqual({"file": "a.txt"}, result["data"])
        asked = events[0]["input_required"]
        self.assertEqual(("Which file?", schema), (asked["message"], asked["schema"]))

    def test_one_question_after_another(self):
        answers = [{"action": "accept", "content": {"n": number}} for number in range(3)]
        result, events = self.play("return [ask('n?')['n'] for _ in range(3)]", answers)
        self.assertEqual([0, 1, 2], result["data"])
        self.assertEqual(3, len({event["input_required"]["id"] for event in events}))
        self.assertNotIn("schema", events[0]["input_required"])

    def test_questions_of_several_threads_get_their_own_answers(self):
        body = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(4) as pool:\n    return list(pool.map(lambda n: ask(str(n)), range(4)))"
        )
        result, events = self.play(body, [{"action": "accept", "content": {}}] * 4)
        self.assertEqual([{}] * 4, result["data"])
        self.assertEqual({"0", "1", "2", "3"}, {event["input_required"]["message"] for event in events})

    def test_an_unanswered_question_is_ask_user_unavailable(self):
        for answer, word in (
            ({"action": "unavailable", "reason": "nobody is here"}, "nobody is here"),
            ({"action": "decline"}, "declined"),
            ({"action": "cancel"}, "dismissed"),
            (None, "closed the connection"),
        ):
            with self.subTest(answer=answer):
                shutil.rmtree(self.work / "openskill_sdk", ignore_errors=True)
                result, _ = self.play("return ask('?')", [answer])
                self.assertEqual("ASK_USER_UNAVAILABLE", result["error"]["code"])
                self.assertIn(word, result["error"]["message"])

    def test_a_skill_can_go_on_when_the_user_declines(self):
        result, _ = self.play(
            "try:\n    return ask('?')\nexcept Declined as error:\n    return error.action", [{"action": "cancel"}]
        )
        self.assertEqual("cancel", result["data"])

    def test_without_a_socket_nobody_is_asked(self):
        script = write_skill(self.work, "return ask('?')")
        for env in ({}, {"OPENSKILL_EVENTS_FD": "2"}, {"OPENSKILL_EVENTS_MARK": "@mark "}, {"OPENSKILL_EVENTS_FD": "97"}):
            with self.subTest(env=env):
                process = subprocess.run(
                    [sys.executable, str(script)], input=b'{"input": {}}', capture_output=True, env=env, timeout=20
                )
                self.assertIn(b'"ASK_USER_UNAVAILABLE"', process.stdout)
                self.assertNotIn(b"input_required", process.stderr)


class AskUser(Channel):
    def ask(self, questions, answers=()):
        return play(SKILLS / "ask_user.py", answers, {"questions": questions})

    def test_questions_become_one_form_and_its_content_the_answers(self):
        questions = [
            {"id": "name", "text": "Your name?", "type": "text", "required": True},
            {"id": "color", "text": "Which color?", "options": ["red", "blue"]},
            {"id": "sizes", "text": "Which sizes?", "type": "choices", "options": [1, 2]},
            {"id": "sure", "text": "Sure?", "type": "boolean"},
        ]
        content = {"name": "Ada", "color": "red", "sizes": [2]}
        result, events = self.ask(questions, [{"action": "accept", "content": content}])
        expected = [("name", "Ada"), ("color", "red"), ("sizes", [2]), ("sure", None)]
        self.assertEqual([{"id": name, "answer": answer} for name, answer in expected], result["data"]["answers"])
        self.assertEqual("the user answered 4 questions", result["text"])
        asked = events[0]["input_required"]
        self.assertEqual("1. Your name?\n2. Which color?\n3. Which sizes?\n4. Sure?", asked["message"])
        self.assertEqual(["name"], asked["schema"]["required"])
        self.assertEqual({"type": "string", "title": "Your name?"}, asked["schema"]["properties"]["name"])
        self.assertEqual({"enum": ["red", "blue"], "title": "Which color?"}, asked["schema"]["properties"]["color"])

    def test_a_single_question_is_the_message(self):
        result, events = self.ask([{"id": "a", "text": "Why?"}], [{"action": "accept", "content": {"a": "so"}}])
        self.assertEqual(("Why?", "the user answered 1 question"), (events[0]["input_required"]["message"], result["text"]))

    def test_a_malformed_question_is_refused_by_name(self):
        for questions, field in (
            ([7], "questions[0]"),
            ([{"id": "a"}], "questions[0].text"),
            ([{"id": "a", "text": "x", "type": "date"}], "questions[0].type"),
            ([{"id": "a", "text": "x", "type": "choice"}], "questions[0].options"),
            ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "questions[1].id"),
            ([{"id": "a", "text": "x", "color": 1}], "questions[0].color"),
            ([], "questions"),
        ):
            with self.subTest(questions=questions):
                result, events = self.ask(questions)
                self.assertEqual(("INVALID_ARGUMENT", field), (result["error"]["code"], result["error"]["details"]["field"]))
                self.assertEqual([], events)


class Artifacts(Channel):
    def content(self, events):
        chunks = [event["artifact"] for event in events]
        self.assertEqual([True] * (len(chunks) - 1) + [False], [chunk["more"] for chunk in chunks])
        self.assertEqual(1, len({chunk["id"] for chunk in chunks}))
        return chunks[0], b"".join(base64.b64decode(chunk["data"]) for chunk in chunks)

    def test_a_large_artifact_comes_in_lines_within_the_bound(self):
        _, events = self.play("artifact('plot.png', bytes(range(256)) * 1000)\nreturn None")
        label, content = self.content(events)
        self.assertEqual(("plot.png", "image/png"), (label["name"], label["media_type"]))
        self.assertEqual(bytes(range(256)) * 1000, content)
        self.assertGreater(len(events), 1)

    def test_each_artifact_has_an_id_of_its_own(self):
        _, events = self.play("artifact('a', b'')\nartifact('b', bytearray(b'x'), 'text/x-own')\nreturn None")
        first, second = (event["artifact"] for event in events)
        self.assertEqual(("application/octet-stream", ""), (first["media_type"], first["data"]))
        self.assertEqual(("text/x-own", "eA=="), (second["media_type"], second["data"]))
        self.assertNotEqual(first["id"], second["id"])

    def test_every_line_is_within_the_hosts_bound(self):
        script = write_skill(self.work, "artifact('x' * 255, bytes(200_000))\nreturn None")
        env = {"OPENSKILL_EVENTS_MARK": "@mark-of-this-call "}
        process = subprocess.run(
            [sys.executable, str(script)], input=b'{"input": {}}', capture_output=True, env=env, timeout=20
        )
        lines = process.stderr.splitlines(keepends=True)
        self.assertTrue(lines and all(line.startswith(b"@mark-of-this-call ") and len(line) <= 65536 for line in lines))


if __name__ == "__main__":
    unittest.main()
