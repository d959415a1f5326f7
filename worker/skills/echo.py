"""Gives back the text it was given: the plainest skill there is, and a template for the next one."""

from openskill_sdk import Fields, run


def handle(input):
    fields = Fields(input)
    text = fields.string("text", required=True)
    fields.done()
    return {"echoed": text}


if __name__ == "__main__":
    run(handle)
