"""The one exception with which a skill refuses a call."""


class SkillError(Exception):
    """Ends the call with an error that the caller can act on.

    `code` is one of the codes of the openskill contract, `message` tells the caller what to change,
    `details` are machine-readable. None of them may name a path of the host.
    """

    def __init__(self, code, message, **details):
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def exit_code(self):
        return {"INVALID_JSON": 2, "INTERNAL": 3}.get(self.code, 1)


def invalid(field, reason):
    """The argument `field` is not acceptable, for this reason."""
    return SkillError("INVALID_ARGUMENT", f"{field}: {reason}", field=field, reason=reason)
