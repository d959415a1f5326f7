"""Calls the functions as any others. `python3 tests/test_@ID@.py`

Set up once: `python3 -m venv .venv && openskill sdk install && . .venv/bin/activate`
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from openskill_sdk import SkillError  # noqa: E402

from @ID@ import @ID@  # noqa: E402


class Skill(unittest.TestCase):
    def test_converts_to_upper_case(self):
        self.assertEqual(@ID@("hello", times=2), {"shouted": "HELLOHELLO"})

    def test_rejects_an_empty_text(self):
        with self.assertRaises(SkillError):
            @ID@("")


if __name__ == "__main__":
    unittest.main()
