"""Runs a skill as a worker does, for its tests.

    from openskill_sdk.testing import run_skill

    def test_lines(tmp_path):
        data = tmp_path / "data"
        data.mkdir()
        (data / "a.log").write_text("one\\ntwo\\n")
        outcome = run_skill("lines.py", {"path": "data/a.log"}, allowed_root=data)
        assert outcome.data == {"lines": 2}

        outcome = run_skill("lines.py", {"path": "/etc/passwd"}, allowed_root=data)
        assert outcome.code == "FORBIDDEN_PATH"

`run_skill` starts a process with the environment, the working folder and the descriptors that a worker gives it, and
judges what it prints, its exit code and its events by the same rules. It differs from a worker in three points: there is
no jail and no limit but the deadline, arguments are not checked against a schema, and answers are not either.
"""

from .channel import Answers
from .outcome import Artifact, Outcome
from .process import run_skill

__all__ = ["Answers", "Artifact", "Outcome", "run_skill"]
