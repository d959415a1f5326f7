"""A small library for skills written in Python. Optional: the contract is plain JSON over pipes.

A skill is a function. Its signature and docstring are all that callers need to know:

    from openskill_sdk import skill

    @skill(read_only=True)
    def shout(text: str, times: int = 1) -> dict:
        \"""Return the text in capitals.\"""
        return {"text": text.upper() * times}

Or it is a script with a manifest, which gives a function from the caller's input to a value to `run`:

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
- Ask the user: `ask("Which file?", schema)`, `ask_user(questions)`, `open_url("Sign in", url)`
- Ask a caller that speaks MCP for a message of its model, or for the user's folders: `sample("Sum up: ...")`, `roots()`
- Ask several such questions at once: `ask_together({"name": form("Who?", schema), "folders": ROOTS})`
"""

from .artifacts import artifact
from .arguments import Fields
from .context import Context
from .decorator import skill
from .errors import SkillError
from .events import log, partial, progress
from .questions import ROOTS, Declined, ask, ask_together, ask_user, form, open_url, roots, sample, sampling
from .runtime import Result, run

__all__ = [
    "ROOTS", "Context", "Declined", "Fields", "Result", "SkillError", "artifact", "ask", "ask_together", "ask_user", "form",
    "log", "open_url", "partial", "progress", "roots", "run", "sample", "sampling", "skill",
]
