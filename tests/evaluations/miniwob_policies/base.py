"""What policies share: lines of the accessibility tree, ways to find one, and the register of tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable

POLICIES: dict[str, Callable[["Page"], None]] = {}

STRING = r'"((?:[^"\\]|\\.)*)"'
LINE = re.compile(rf"^( *)(?:\[(\d+)\] )?(drawn text|polygon of \d+ corners|[a-z]+(?: \d)?)(?: {STRING})?(?: value {STRING})?(?: (.*))?$", re.S)
PLACE = re.compile(r"(-?\d+)x(-?\d+) at (-?\d+),(-?\d+)")
# What MiniWoB shows beside each task.
DISPLAY = ("Last reward:", "Last 10 average:", "Time left:", "Episodes done:")


def task(*names: str):
    """Registers a policy for tasks."""

    def register(policy):
        for name in names:
            POLICIES[name] = policy
        return policy

    return register


def unquoted(text: str | None) -> str:
    return (text or "").replace('\\"', '"')


@dataclass
class Line:
    """A line of the tree, such as `[3] button "Send" disabled 20x10 at 30,40`."""

    depth: int
    n: int
    kind: str
    name: str
    value: str
    rest: str
    box: tuple[int, int, int, int] | None = field(default=None)

    @property
    def middle(self) -> tuple[int, int]:
        return (self.box[2], self.box[3])

    def has(self, word: str) -> bool:
        return word in self.rest.split()

    @property
    def marks(self) -> str:
        """The id or classes that stand in for a name."""
        return next((word for word in self.rest.split() if word[:1] in "#." and not re.match(r"#[0-9a-f]{6}$", word)), "")


def parse(text: str) -> Line:
    found = LINE.match(text)
    if not found:
        return Line(0, 0, "", "", "", text)
    indent, n, kind, name, value, rest = found.groups()
    rest = rest or ""
    kind = re.sub(r" \d$", "", kind)
    place = PLACE.search(rest)
    box = tuple(int(part) for part in place.groups()) if place else None
    return Line(len(indent) // 2, int(n or 0), kind, unquoted(name), unquoted(value), rest, box)


class Page:
    """A task's page behind the tools of a browser."""

    def __init__(self, browser):
        self.tools = browser
        self.lines: list[Line] = []
        self.look()

    def look(self) -> list[Line]:
        lines = [parse(text) for text in self.tools.tree()]
        lines = [line for line in lines if not (line.kind == "text" and line.name.startswith(DISPLAY))]
        self.lines = [line for line in lines if not (line.kind == "canvas" and line.box and line.box[2] > 165)]
        return self.lines

    @property
    def goal(self) -> str:
        return next((line.name for line in self.lines if line.kind in ("text", "paragraph")), "")

    def quoted(self, nth: int = 0) -> str:
        """The nth quoted part of the goal."""
        return re.findall(r'"([^"]*)"', self.goal)[nth]

    def goal_match(self, pattern: str) -> re.Match:
        found = re.search(pattern, self.goal)
        if not found:
            raise LookupError(f"the goal is another one: {self.goal}")
        return found

    def all(self, *kinds: str, named: str | None = None) -> list[Line]:
        return [line for line in self.lines if line.n and (not kinds or line.kind in kinds) and (named is None or line.name == named)]

    def one(self, *kinds: str, named: str | None = None, holds: str | None = None) -> Line:
        found = [line for line in self.all(*kinds, named=named) if holds is None or holds.lower() in line.name.lower()]
        if not found:
            raise LookupError(f"nothing like {kinds} {named or holds or ''}")
        return found[0]

    def texts(self) -> list[str]:
        return [line.name for line in self.lines if line.kind in ("text", "heading", "cell", "listitem", "paragraph") and line.name][1:]

    def click(self, target: Line | str, *kinds: str):
        self.tools.click(target.n if isinstance(target, Line) else self.one(*kinds, named=target).n)

    def press_at(self, x: float, y: float):
        """A press at a point: a drag that ends where it starts."""
        self.tools.drag((round(x), round(y)), (round(x), round(y)), 1)

    def write(self, line: Line, text: str):
        self.tools.input_text(line.n, text)

    def submit(self, name: str = "Submit"):
        self.look()
        found = [line for line in self.all() if line.name.lower().strip("!") == name.lower()]
        self.click(next((line for line in found if line.kind == "button"), found[0]))

    def fields(self) -> list[Line]:
        return [line for line in self.all("textbox", "password", "searchbox", "spinbutton", "date", "time") if not line.has("disabled")]

    def drag(self, source, target, steps: int = 10):
        start = source.middle if isinstance(source, Line) else source
        end = target.middle if isinstance(target, Line) else target
        self.tools.drag(tuple(round(one) for one in start), tuple(round(one) for one in end), steps)

    def after(self, line: Line) -> list[Line]:
        return self.lines[self.lines.index(line) + 1:]

    def wait_for(self, test: Callable[[], bool], seconds: float = 8.0, step: float = 0.1):
        """Looks again until the test holds."""
        for _ in range(int(seconds / step)):
            self.look()
            if test():
                return
            self.tools.wait(step)
        raise LookupError("the page does not come to what was waited for")


ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}


def ordinal(text: str) -> int:
    """The number in `3rd` or `third`."""
    found = re.search(r"(\d+)(?:st|nd|rd|th)", text)
    return int(found.group(1)) if found else next(value for word, value in ORDINALS.items() if word in text)


def number(text: str) -> float:
    return float(re.search(r"-?\d+(?:\.\d+)?", text.replace(",", "")).group(0))
