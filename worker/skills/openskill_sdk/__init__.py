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

`run` reads `{"input": {...}}` from stdin and prints exactly one result on stdout. Whatever else the skill prints goes to
stderr.

- Refuse a call: `raise SkillError("INVALID_ARGUMENT", "...", field="text")`
- Say that there was more, or add a line for a model: `return Result(data, truncated=True, text="...")`
- Report while working: `progress(0.5, "half")`, `partial(value)`, `log("info", "...")`
- Produce a picture or a file: `artifact("plot.png", data)`
- Ask the user: `ask("Which file?", schema)`, `ask_user(questions)`
"""

from .artifacts import artifact
from .arguments import Fields
from .errors import SkillError
from .events import log, partial, progress
from .questions import Declined, ask, ask_user
from .runtime import Result, run

__all__ = [
    "Declined", "Fields", "Result", "SkillError", "artifact", "ask", "ask_user", "log", "partial", "progress", "run",
]
