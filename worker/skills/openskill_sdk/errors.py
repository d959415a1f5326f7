"""The one exception with which a skill refuses a call."""

from __future__ import annotations


class SkillError(Exception):
    """Ends the call with an error that the caller can act on.

    `code` is one of the codes of the openskill contract, `message` tells the caller what to change,
    `details` are machine-readable. None of them may name a path of the host.
    """

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def exit_code(self) -> int:
        return {"INVALID_JSON": 2, "INTERNAL": 3}.get(self.code, 1)


def invalid(field: str, reason: str) -> SkillError:
    """The argument `field` is not acceptable, for this reason."""
    return SkillError("INVALID_ARGUMENT", f"{field}: {reason}", field=field, reason=reason)
