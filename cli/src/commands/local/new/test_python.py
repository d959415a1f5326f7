"""Runs the skill as a worker does: JSON on stdin, one JSON value on stdout. `python3 tests/test_@ID@.py`"""

import json
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "@ID@.py"


def call(**input):
    run = subprocess.run([sys.executable, SCRIPT], input=json.dumps({"input": input}), capture_output=True, text=True, timeout=30)
    return json.loads(run.stdout), run.returncode


class Skill(unittest.TestCase):
    def test_converts_to_upper_case(self):
        answer, code = call(text="hello")
        self.assertEqual((answer["data"], code), ({"shouted": "HELLO"}, 0))

    def test_rejects_an_empty_text(self):
        answer, code = call(text="")
        self.assertEqual((answer["error"]["code"], code), ("INVALID_ARGUMENT", 1))


if __name__ == "__main__":
    unittest.main()
