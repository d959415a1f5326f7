"""Runs the program as a worker does: arguments on the command line, one JSON value on stdout. `python3 tests/test_@ID@.py`"""

import json
import pathlib
import subprocess
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "@ID@.sh"


class Skill(unittest.TestCase):
    def test_words_are_counted(self):
        run = subprocess.run([PROGRAM, "--", "hello world"], capture_output=True, text=True, timeout=30)
        self.assertEqual((json.loads(run.stdout), run.returncode), ({"words": 2}, 0))


if __name__ == "__main__":
    unittest.main()
