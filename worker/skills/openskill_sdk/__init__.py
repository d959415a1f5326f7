"""A small library for skills written in Python. Optional: the contract is plain JSON over pipes.

A skill is a function from the caller's input to a value:

    from openskill_sdk import Fields, run

    def handle(input):
        fields = Fields(input)
        text = fields.string("text", required=True)
        fields.done()
        return {"echoed": text}

    if __name__ == "__main__":
        run(handle)

`run` reads `{"input": {...}}` from stdin and prints exactly one result on stdout. Refuse a call with
`raise SkillError("INVALID_ARGUMENT", "...", field="text")`; say that there was more with
`return Result(data, truncated=True)`. Whatever else the skill prints goes to stderr.
"""

from .arguments import Fields
from .errors import SkillError
from .events import log, partial, progress
from .runtime import Result, run

__all__ = ["Fields", "Result", "SkillError", "log", "partial", "progress", "run"]
