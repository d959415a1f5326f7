"""Tasks whose answer is read or worked out from text."""

from __future__ import annotations

import re

from .base import Page, number, ordinal, task


@task("simple-arithmetic")
def arithmetic(page: Page):
    left, sign, right = re.search(r"(-?\d+) *([-+x*/÷]) *(-?\d+)", " ".join(page.texts())).groups()
    a, b = int(left), int(right)
    page.write(page.fields()[0], str({"+": a + b, "-": a - b, "x": a * b, "*": a * b}.get(sign, 0) if sign not in "/÷" else a // b))
    page.submit()


@task("simple-algebra")
def algebra(page: Page):
    text = next(text for text in page.texts() if "=" in text and re.search(r"\d", text))
    left, sign, right, result = re.search(r"(x|-?\d+) *([-+]) *(x|-?\d+) *= *(-?\d+)", text).groups()
    total = int(result)
    if left == "x":
        x = total - int(right) if sign == "+" else total + int(right)
    else:
        x = total - int(left) if sign == "+" else int(left) - total
    page.write(page.fields()[0], str(x))
    page.submit()


@task("find-word")
def nth_word(page: Page):
    words = page.texts()[0].split()
    page.write(page.fields()[0], re.sub(r"[.,]", "", words[ordinal(page.goal) - 1]))
    page.submit()


@task("read-table")
def one_value(page: Page):
    label = page.goal_match(r"value of (.*) into").group(1)
    page.write(page.fields()[0], table(page)[label])
    page.submit()


@task("read-table-2")
def two_values(page: Page):
    values = table(page)
    for line, field in zip(page.lines, page.lines[1:]):
        if line.kind == "text" and line.name.endswith(":") and field.kind == "textbox":
            page.write(field, values[line.name[:-1]])
    page.submit()


def table(page: Page) -> dict[str, str]:
    cells = [line.name for line in page.lines if line.kind in ("cell", "columnheader", "rowheader")]
    return dict(zip(cells[::2], cells[1::2]))


@task("scroll-text")
def last_word(page: Page):
    text = max(page.tools.content().split("\n\n"), key=len)
    answer = next(line for line in page.fields() if not line.has("multiline"))
    page.write(answer, re.findall(r"[A-Za-z]+", text.split("Submit")[0])[-1])
    page.submit()


@task("copy-paste", "copy-paste-2")
def copy(page: Page):
    areas = page.all("textbox")
    source = areas[ordinal(page.goal) - 1] if re.search(r"\d(st|nd|rd)", page.goal) else next(line for line in areas if line.has("multiline"))
    page.click(source)
    page.tools.send_keys("Control+a")
    page.tools.send_keys("Control+c")
    page.click(next(line for line in areas if not line.has("multiline")))
    page.tools.send_keys("Control+v")
    page.submit()


@task("highlight-text", "highlight-text-2")
def highlight(page: Page):
    nth = ordinal(page.goal) if re.search(r"\d(st|nd|rd)", page.goal) else 1
    found = page.tools.scroll_to_text(page.texts()[nth - 1])
    x, y, width, height = map(float, re.search(r"x,y,w,h: ([-\d.,]+)", found).group(1).split(","))
    page.drag((x, y + 4), (x + width - 1, y + height - 4), 12)
    page.submit()


@task("text-transform")
def shown_text(page: Page):
    page.write(page.fields()[0], page.texts()[0])
    page.submit()


@task("buy-ticket")
def ticket(page: Page):
    offers = []
    for line in page.all("button"):
        before = page.lines[: page.lines.index(line)]
        hours, minutes = re.search(r"(\d+)h (\d+)m", next(one.name for one in reversed(before) if re.search(r"\d+h", one.name))).groups()
        offers.append((int(hours) * 60 + int(minutes), number(line.name.split("$")[1]), line))
    by = 0 if "duration" in page.goal else 1
    choose = max if re.search("longest|most expensive", page.goal) else min
    page.click(choose(offers, key=lambda offer: offer[by])[2])


@task("generate-number")
def generate(page: Page):
    goal = page.goal
    if found := re.search(r"(greater|less) than (-?\d+)", goal):
        limit = int(found.group(2))
        fits = (lambda value: value > limit) if found.group(1) == "greater" else (lambda value: value < limit)
    elif "odd" in goal:
        fits = lambda value: value % 2 == 1  # noqa: E731
    elif "even" in goal:
        fits = lambda value: value % 2 == 0  # noqa: E731
    else:
        first, last = map(int, re.search(r"between (-?\d+) and (-?\d+)", goal).groups())
        fits = lambda value: first <= value <= last  # noqa: E731
    for _ in range(60):
        page.click("Generate", "button")
        page.look()
        shown = next((text for text in page.texts() if re.fullmatch(r"-?\d+", text)), None)
        if shown and fits(int(shown)):
            return page.submit()
    raise LookupError("no number fits")


@task("guess-number")
def guess(page: Page):
    low, high = 0, 9
    while low <= high:
        middle = (low + high) // 2
        page.write(page.one("spinbutton"), str(middle))
        page.submit()
        page.look()
        said = " ".join(page.texts())
        if f"higher than {middle}" in said:
            low = middle + 1
        elif f"lower than {middle}" in said:
            high = middle - 1
        else:
            return


@task("search-engine")
def search(page: Page):
    words, wanted = page.quoted(), ordinal(page.goal_match(r"(\d+(?:st|nd|rd|th)) search").group(1))
    page.write(page.fields()[0], words)
    page.click("Search", "button")
    page.wait_for(lambda: len(results(page)) > 0)
    per_page = len(results(page))
    for _ in range((wanted - 1) // per_page):
        page.click(">", "link")
        page.look()
    page.click(results(page)[(wanted - 1) % per_page])


def results(page: Page):
    pager = {"<", ">", "First", "Last", "Previous", "Next"}
    return [line for line in page.all() if line.kind in ("link", "generic") and line.name and line.name not in pager and not line.name.isdigit()
            and line.name != "Search" and not line.name.startswith("http") and line.kind != "list"]


@task("terminal")
def terminal(page: Page):
    page.click(next(line for line in page.all() if "terminal" in line.name.lower() or line.kind == "textbox"))
    run(page, "ls")
    listed = re.findall(r"[\w-]+(?:\.\w+)*", " ".join(page.tools.content().split("ls")[-1:]))
    if "no file extension" in page.goal:
        name = next(one for one in listed if "." not in one and one not in ("user",))
    else:
        ending = re.search(r"\.([\w.]+\w)", page.goal).group(1)
        name = next(one for one in listed if one.endswith("." + ending))
    run(page, f"rm {name}")


def run(page: Page, command: str):
    for letter in command:
        page.tools.send_keys(letter if letter != " " else "Space")
    page.tools.send_keys("Enter")
    page.look()


@task("stock-market")
def buy_low(page: Page):
    limit = number(page.goal.split("$")[1])
    button = page.one("button", named="Buy")

    def cheap() -> bool:
        shown = re.search(r"Stock price: ?\$([\d.]+)", " ".join(page.texts()).replace(" $", " $"))
        return shown is not None and float(shown.group(1)) <= limit - 0.2

    page.wait_for(cheap, 30, 0.01)
    page.click(button)


@task("order-food")
def food(page: Page):
    plus = []
    title, marks = "", []
    for line in page.lines[1:]:
        if line.kind == "text":
            title, marks = line.name, []
        elif line.kind == "img":
            marks.append(line.name)
        elif line.name == "+":
            plus.append((title, list(marks), line))
    if found := re.search(r"each item: (.*)", page.goal):
        wanted = found.group(1).split(", ")
        chosen = [line for title, _, line in plus if title in wanted]
    else:
        count, mark = re.search(r"Order (\d+) items? that (?:is|are) (.*?)\.?$", page.goal).groups()
        fitting = [line for _, marks, line in plus if fits_diet(marks, mark)]
        chosen = [fitting[i % len(fitting)] for i in range(int(count))]
    for line in chosen:
        page.click(line)
    page.look()
    page.submit("Order")


def fits_diet(marks: list[str], mark: str) -> bool:
    return mark in marks
