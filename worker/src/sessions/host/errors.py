"""How exceptions and long texts are told."""

import traceback

# How many characters of a traceback are told.
MOST_TRACEBACK = 12 * 1024
# All files of the host are one program.
OWN_FILE = (lambda: None).__code__.co_filename


def described(error):
    """An exception as its author wants to see it: from the cell's own lines on."""
    kind = type(error)
    # Before `traceback`, which swallows a signal that interrupts `__str__`: the next call would then run without end.
    text = message(error)
    try:
        told = traceback.TracebackException(kind, error, own_frames(error.__traceback__))
        # Nor those of `ask`, which the code calls as `input`.
        told.stack[:] = [frame for frame in told.stack if frame.filename != OWN_FILE]
        lines = "".join(told.format())
    except Exception:
        lines = ""
    return {"name": str(kind.__name__)[:128], "message": cut(text, MOST_MESSAGE), "traceback": cut_middle(lines, MOST_TRACEBACK)}


def message(error):
    try:
        return str(error)
    except Exception:
        return "<its message cannot be printed>"


def reason(error):
    """An exception in a few words."""
    return f"{type(error).__name__}: {message(error)}"


def own_frames(frame):
    """Without the frames before the first one of a cell, which are ours."""
    while frame is not None and not frame.tb_frame.f_code.co_filename.startswith(CELL):
        frame = frame.tb_next
    return frame


def cut(text, most):
    return text if len(text) <= most else text[:most] + "..."


def cut_middle(text, most):
    """Both ends of a traceback say something: where it began, and what it was."""
    return text if len(text) <= most else text[:most // 4] + "\n...\n" + text[-(most - most // 4):]
