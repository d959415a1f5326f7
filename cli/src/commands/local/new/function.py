"""Skills of this file: each function with @skill."""

from openskill_sdk import SkillError, skill


@skill(
    version="0.1.0",
    # Repeating a call does no harm, so openskill may retry it.
    idempotent=True,
    read_only=True,
    timeout=5,
    examples=[
        {"name": "a greeting", "input": {"text": "hello"}, "data": {"shouted": "HELLO"}},
        {"name": "an empty text", "input": {"text": ""}, "error": "INVALID_ARGUMENT"},
    ],
)
def @ID@(text: str, times: int = 1) -> dict:
    """Convert a text to upper case.

    Args:
        text: The text
        times: How often to repeat it
    """
    if not text:
        raise SkillError("INVALID_ARGUMENT", "text: must not be empty", field="text")
    return {"shouted": text.upper() * times}
