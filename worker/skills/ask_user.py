"""Asks the user one or more questions and returns the answers."""

from openskill_sdk import Fields, Result, ask_user, run


def handle(input):
    fields = Fields(input)
    questions = fields.array("questions", low=1, high=20, required=True)
    fields.done()
    answers = ask_user(questions)
    count = len(answers["answers"])
    return Result(answers, text=f"the user answered {count} question" + ("" if count == 1 else "s"))


if __name__ == "__main__":
    run(handle)
