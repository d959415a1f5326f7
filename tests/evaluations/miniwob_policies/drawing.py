"""Tasks on drawings: points, angles, grids."""

from __future__ import annotations

import math
import re

from .base import Page, task


def dots(page: Page, color: str | None = None):
    return [line for line in page.all("circle") if line.box[0] < 12 and (color is None or line.has(color))]


@task("grid-coordinate")
def coordinate(page: Page):
    x, y = map(int, page.goal_match(r"\((-?\d+), ?(-?\d+)\)").groups())
    points = dots(page)
    xs, ys = sorted({line.middle[0] for line in points}), sorted({line.middle[1] for line in points})
    aim = (xs[x + 2], ys[2 - y])
    page.click(min(points, key=lambda line: math.dist(line.middle, aim)))


@task("circle-center")
def center(page: Page):
    circle = max(page.all("circle"), key=lambda line: line.box[0])
    page.press_at(*circle.middle)
    page.submit()


@task("find-midpoint")
def midpoint(page: Page):
    a, b = [line.middle for line in dots(page)[:2]]
    page.press_at((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    page.submit()


@task("right-angle")
def right_angle(page: Page):
    corner, other = dots(page, "blue")[0].middle, dots(page, "black")[0].middle
    area = page.one("drawing").box
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    best = None
    for length in range(10, 140):
        for side in (1, -1):
            point = (corner[0] - dy * side * length / math.hypot(dx, dy), corner[1] + dx * side * length / math.hypot(dx, dy))
            aimed = (round(point[0]), round(point[1]))
            if inside(aimed, area):
                wrong = abs(90 - angle(other, corner, aimed))
                if best is None or wrong < best[0]:
                    best = (wrong, aimed)
    page.press_at(*best[1])
    page.submit()


@task("bisect-angle")
def bisect(page: Page):
    corner = dots(page, "blue")[0].middle
    a, b = [line.middle for line in dots(page, "black")[:2]]
    area = page.one("drawing").box
    points = [(x, y) for x in range(area[2] - area[0] // 2 + 4, area[2] + area[0] // 2 - 4)
              for y in range(area[3] - area[1] // 2 + 4, area[3] + area[1] // 2 - 4) if math.dist((x, y), corner) > 12]
    total = angle(a, corner, b)
    page.press_at(*min(points, key=lambda point: max(angle(a, corner, point), angle(b, corner, point)) - total / 2))
    page.submit()


def angle(a, corner, b) -> float:
    one = math.atan2(a[1] - corner[1], a[0] - corner[0])
    other = math.atan2(b[1] - corner[1], b[0] - corner[0])
    return abs((math.degrees(one - other) + 180) % 360 - 180)


def inside(point, area) -> bool:
    return abs(point[0] - area[2]) < area[0] / 2 - 4 and abs(point[1] - area[3]) < area[1] / 2 - 4


@task("ascending-numbers")
def ascending(page: Page):
    numbers = sorted(page.all("drawn text"), key=lambda line: int(line.name))
    page.click(numbers[0])
    page.look()
    for line in numbers[1:]:
        boxes = page.all("square", "rectangle")
        page.click(min(boxes, key=lambda box: math.dist(box.middle, line.middle)))
        page.look()


@task("click-shape")
def shape(page: Page):
    words = page.goal_match(r"Click on an? (.*)").group(1)
    page.click(next(line for line in drawn(page) if fits(line, words)))


@task("count-shape")
def count(page: Page):
    words = page.goal_match(r"How many (.*)s are there").group(1)
    page.click(str(sum(fits(line, words) for line in drawn(page))), "button")


def drawn(page: Page):
    return [line for line in page.all() if line.kind in ("circle", "square", "rectangle", "triangle", "drawn text")]


def fits(line, words: str) -> bool:
    """Whether a shape is what the words say: size, color, and what it is."""
    *looks, what = words.split(" ")
    large = line.box[0] > 14 if line.kind != "drawn text" else line.box[1] > 14
    for look in looks:
        if look in ("large", "small"):
            if large != (look == "large"):
                return False
        elif not line.has(look):
            return False
    text = line.name if line.kind == "drawn text" else ""
    kinds = {"item": True, "shape": not text, "letter": text.isalpha(), "digit": text.isdigit(), "rectangle": line.kind in ("square", "rectangle"),
             "circle": line.kind == "circle", "triangle": line.kind == "triangle"}
    return kinds.get(what, text == what)


@task("click-pie", "click-pie-nodelay")
def pie(page: Page):
    wanted = page.quoted()
    plus = page.one("drawn text", named="+")
    page.click(plus)
    page.wait_for(lambda: bool(label(page, wanted)) and still(page, wanted))
    page.click(label(page, wanted)[0])


def label(page: Page, wanted: str):
    return [line for line in page.all("drawn text") if line.name == wanted]


def still(page: Page, wanted: str) -> bool:
    before = label(page, wanted)[0].box
    page.tools.wait(0.2)
    page.look()
    return bool(label(page, wanted)) and label(page, wanted)[0].box == before and before[0] > 2


@task("hot-cold")
def hot(page: Page):
    area = max(page.all("generic"), key=lambda line: line.box[0] * line.box[1] if line.box else 0).box
    left, top = area[2] - area[0] // 2, area[3] - area[1] // 2

    def heat(x: int, y: int) -> str:
        """A drag that starts outside the area moves the pointer in it, and presses nothing there."""
        page.drag((300, 400), (x, y), 2)
        page.look()
        return next((line.name for line in page.lines if line.name.upper() == line.name and line.kind in ("text", "generic") and line.name), "")

    rank = {"ICE COLD": 0, "COLD": 1, "WARM": 2, "HOT": 3}
    points = [(x, y) for x in range(left + 12, left + area[0], 22) for y in range(top + 12, top + area[1], 22)]
    cold = next(point for point in points if rank.get(heat(*point), 0) >= 1)
    near = [(x, y) for x in range(cold[0] - 42, cold[0] + 43, 6) for y in range(cold[1] - 42, cold[1] + 43, 6)
            if left + 3 < x < left + area[0] - 3 and top + 3 < y < top + area[1] - 3]
    known: list[tuple[tuple[int, int], int]] = []
    while near:
        point = near[len(near) // 2]
        found = rank.get(heat(*point), 0)
        if found == 3:
            return page.press_at(*point)
        known.append((point, found))
        low, high = ((40, 999), (10, 40), (5, 10))[found]
        near = [one for one in near if one != point and low - 4 <= math.dist(one, point) <= high + 4]
    raise LookupError(f"no hot area: {known[-3:]}")


@task("identify-shape")
def identify(page: Page):
    lines = [line for line in page.lines[1:] if line.kind != "button"]
    kind = next(line for line in lines)
    names = {"circle": "Circle", "square": "Rectangle", "rectangle": "Rectangle", "triangle": "Triangle"}
    answer = names.get(kind.kind) or ("Number" if re.fullmatch(r"\d", kind.name) else "Letter")
    page.click(answer, "button")
