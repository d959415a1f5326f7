"""Tasks that drag something."""

from __future__ import annotations

import re

from .base import Page, number, ordinal, task

WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


@task("drag-circle", "drag-single-shape")
def one_shape(page: Page):
    shape = next(line for line in page.all() if line.kind in ("circle", "square", "rectangle", "triangle", "polygon"))
    dx, dy = WAYS[page.goal_match(r"(left|right|up|down)").group(1)]
    x, y = shape.middle
    page.drag((x, y), (x + dx * 45, y + dy * 45))
    page.submit()


@task("drag-box")
def box_in_box(page: Page):
    page.drag(page.one(named="s"), page.one(named="L"))
    page.submit()


@task("drag-items")
def list_item(page: Page):
    items = page.all("listitem")
    name, where = page.goal_match(r"Drag ([\w-]+) (.*)\.").groups()
    i = next(i for i, line in enumerate(items) if line.name == name)
    target = {"to the top": 0, "to the bottom": len(items) - 1, "down by one position": i + 1, "up by one position": i - 1}.get(where)
    if target is None:
        target = ordinal(where) - 1
    move_in_list(page, items, i, target)


def move_in_list(page: Page, items, i: int, target: int):
    x, y = items[target].middle
    beyond = items[target].box[1] * 0.4 * (1 if target > i else -1)
    page.drag(items[i].middle, (x, y + beyond), 15)


CELLS = {"top left": 0, "top center": 1, "top middle": 1, "top right": 2, "left": 3, "center left": 3, "middle left": 3, "center": 4, "middle": 4,
         "right": 5, "center right": 5, "middle right": 5, "bottom left": 6, "bottom center": 7, "bottom middle": 7, "bottom right": 8,
         "top": 1, "bottom": 7}


@task("drag-items-grid")
def grid_item(page: Page):
    items = page.all("listitem")
    name, where = page.goal_match(r"Drag ([\w-]+) (.*)\.").groups()
    i = next(i for i, line in enumerate(items) if line.name == name)
    steps = {"left by one": i - 1, "right by one": i + 1, "up by one": i - 3, "down by one": i + 3}
    words = re.sub(r"\bto the |\bposition\b|-", " ", where).strip()
    target = steps.get(words, CELLS.get(re.sub(r"\s+", " ", words)))
    if target is None:
        target = next(value for key, value in steps.items() if key.split()[0] in words)
    (x, y), (from_x, from_y) = items[target].middle, items[i].middle
    page.drag((from_x, from_y), (x + (6 if x > from_x else -6 if x < from_x else 0), y + (6 if y > from_y else -6 if y < from_y else 0)), 20)


@task("drag-sort-numbers")
def sort_numbers(page: Page):
    for target in range(20):
        items = page.all("listitem")
        values = [int(line.name) for line in items]
        if values == sorted(values):
            return page.submit()
        wrong = next(i for i, value in enumerate(values) if value != sorted(values)[i])
        move_in_list(page, items, values.index(sorted(values)[wrong]), wrong)
        page.look()
    raise LookupError("the list does not get sorted")


SHAPES = {"circles": ("circle",), "triangles": ("triangle",), "rectangles": ("square", "rectangle"), "squares": ("square",)}


@task("drag-shapes")
def shapes_in_box(page: Page):
    kinds = SHAPES[page.goal_match(r"Drag all (\w+)").group(1)]
    box = next(line for line in page.all("rectangle", "square") if line.box[0] > 40)
    for shape in [line for line in page.all() if line.box and line.box[0] < 25 and line.kind in kinds]:
        page.drag(shape, box)
    page.submit()


@task("drag-shapes-2")
def shapes_in_two_boxes(page: Page):
    words = page.goal_match(r"Drag all (.*?) into the left box").group(1)
    boxes = sorted((line for line in page.all("rectangle", "square") if line.box[0] > 40), key=lambda line: line.middle[0])
    left, right = [line.middle for line in boxes[:2]] if len(boxes) >= 2 else ((42, 90), (118, 90))
    for shape in [line for line in page.all() if line.box and line.box[0] < 25 and line.kind in ("circle", "triangle", "square", "rectangle")]:
        color = re.match(r"(\w+) shapes", words)
        fits = shape.has(color.group(1)) if color else shape.kind in SHAPES.get(words, ())
        page.drag(shape.middle, left if fits else right)
    page.submit()


@task("resize-textarea")
def resize(page: Page):
    what, how = page.goal_match(r"the (height|width) is (larger|smaller)").groups()
    corner = next(line for line in page.all() if ".ui-resizable-se" in line.rest)
    by = 30 if how == "larger" else -15
    x, y = corner.middle
    page.drag((x, y), (x + (by if what == "width" else 0), y + (by if what == "height" else 0)))
    page.submit()


@task("draw-line")
def line(page: Page):
    dot = page.one("circle")
    x, y = dot.middle
    if "vertical" in page.goal:
        page.drag((x, y - 38), (x, y + 38), 20)
    else:
        page.drag((max(x - 50, 8), y), (min(x + 50, 148), y), 20)
    page.submit()


@task("daily-calendar")
def calendar(page: Page):
    length, name, start, end = page.goal_match(r'Create a (.*?) event named "(\w+)", between (\w+) and (\w+)').groups()
    halves = round(number(length) * (2 if "hour" in length else 1 / 30))
    first, last = hour(start) * 2, hour(end) * 2 if hour(end) else 48
    page.tools.scroll(20 * first - 40)
    page.look()
    slots = {int(re.search(r"#hh-(\d+)", line.marks).group(1)): line for line in page.all("generic") if line.marks.startswith("#hh-")}
    for i in range(first, last - halves + 1):
        if not all(part in slots for part in range(i, i + halves)):
            continue
        from_slot, to_slot = slots[i], slots[i + halves - 1]
        page.drag(from_slot.middle, (to_slot.middle[0], to_slot.middle[1] + 2), 12)
        page.look()
        if page.all("textbox"):
            break
    page.write(page.one("textbox"), name)
    page.submit("Create")


def hour(text: str) -> int:
    value = int(number(text)) % 12
    return value + (12 if text.lower().endswith("pm") else 0)
