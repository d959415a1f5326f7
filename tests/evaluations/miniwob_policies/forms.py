"""Tasks with fields, lists, dates and sliders."""

from __future__ import annotations

import re

from .base import Page, number, ordinal, task


@task("enter-text", "enter-text-dynamic")
def text(page: Page):
    page.write(page.fields()[0], page.quoted())
    page.submit()


@task("enter-text-2")
def text_in_case(page: Page):
    words = page.quoted()
    page.write(page.fields()[0], words.upper() if "upper" in page.goal else words.lower())
    page.submit()


@task("enter-password")
def password_twice(page: Page):
    for field in page.fields():
        page.write(field, page.quoted())
    page.submit()


@task("login-user")
def login(page: Page):
    user, password = page.fields()
    page.write(user, page.quoted(0))
    page.write(password, page.quoted(1))
    page.submit("Login")


@task("login-user-popup")
def login_with_popup(page: Page):
    user, password = page.quoted(0), page.quoted(1)
    for kind, words in (("textbox", user), ("password", password)):
        for _ in range(4):
            page.look()
            close_popup(page)
            page.write(page.one(kind), words)
            page.look()
            if page.one(kind).value:
                break
    close_popup(page)
    page.click(page.all("button")[-1] if not page.all("button", named="Login") else page.one("button", named="Login"))


def close_popup(page: Page):
    for name in ("Cancel", "No"):
        if page.all("button", named=name):
            page.click(name, "button")
            page.look()
            return


@task("enter-date")
def date(page: Page):
    month, day, year = page.goal_match(r"(\d+)/(\d+)/(\d+)").groups()
    page.write(page.one("date"), f"{year}-{month}-{day}")
    page.submit()


@task("enter-time")
def time(page: Page):
    hour, minute, half = page.goal_match(r"(\d+):(\d+) ([AP]M)").groups()
    page.write(page.one("time"), f"{int(hour) % 12 + (12 if half == 'PM' else 0):02}:{minute}")
    page.submit()


@task("choose-list")
def from_list(page: Page):
    page.tools.select(page.one("combobox").n, page.goal_match(r"Select (.*) from the list").group(1))
    page.submit()


@task("click-scroll-list")
def from_scroll_list(page: Page):
    for name in page.goal_match(r"Select (.*) from the scroll list").group(1).split(", "):
        page.tools.select(page.one("listbox").n, name)
    page.submit()


MONTHS = "January February March April May June July August September October November December".split()


@task("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
def date_picker(page: Page):
    month, day, year = map(int, page.goal_match(r"(\d+)/(\d+)/(\d+)").groups())
    pick_date(page, year, month, day)
    page.submit()


def pick_date(page: Page, year: int, month: int, day: int):
    page.click(page.one("textbox", holds="datepicker"))
    page.wait_for(lambda: shown_month(page) is not None)
    for _ in range(40):
        shown = shown_month(page)
        if shown == (year, month):
            break
        back = shown > (year, month)
        turn = next(line for line in page.all() if line.name.lower().startswith("prev" if back else "next"))
        page.click(turn)
        page.wait_for(lambda shown=shown: shown_month(page) not in (None, shown))
    page.click(page.one("link", named=str(day)))


def shown_month(page: Page) -> tuple[int, int] | None:
    words = " ".join(line.name for line in page.lines[1:] if not line.n)
    found = re.search(rf"({'|'.join(MONTHS)}) *(\d{{4}})", words)
    return (int(found.group(2)), MONTHS.index(found.group(1)) + 1) if found else None


@task("use-autocomplete", "use-autocomplete-nodelay")
def autocomplete(page: Page):
    start = page.goal_match(r'starts with "([^"]*)"').group(1)
    ending = re.search(r'ends with "([^"]*)"', page.goal)
    page.tools.input_text(page.one("textbox").n, "")
    page.click(page.one("textbox"))
    for letter in start:
        page.tools.send_keys(letter)

    def fitting():
        return [line for line in page.all() if line.kind in ("menuitem", "option", "listitem", "generic") and line.name.startswith(start)
                and line.name.endswith(ending.group(1) if ending else "")]

    page.wait_for(lambda: bool(fitting()))
    page.click(fitting()[-1])
    page.submit()


@task("use-spinner")
def spinner(page: Page):
    target = int(page.goal_match(r"Select (-?\d+)").group(1))
    up, down = [line for line in page.all("button") if line.name != "Submit"][:2]
    for _ in range(60):
        value = int(number(page.one("spinbutton").value or "0"))
        if value == target:
            return page.submit()
        page.click(up if value < target else down)
        page.look()
    raise LookupError("the spinner does not arrive")


@task("use-slider")
def slider(page: Page):
    set_slider(page, 0, int(page.goal_match(r"Select (-?\d+)").group(1)))
    page.submit()


@task("use-slider-2")
def three_sliders(page: Page):
    for i, value in enumerate(page.goal_match(r"\[(.*)\]").group(1).split(",")):
        set_slider(page, i, int(value))
    page.submit()


def set_slider(page: Page, i: int, target: int):
    """By keys: the handle takes the focus when it is pressed."""
    page.click([line for line in page.all("generic", "slider") if ".ui-slider-handle" in line.rest][i])
    for _ in range(120):
        page.look()
        handle = [line for line in page.all("generic", "slider") if ".ui-slider-handle" in line.rest][i]
        value = int(next(line.name for line in page.after(handle) if line.kind == "text" and re.fullmatch(r"-?\d+", line.name)))
        if value == target:
            return
        page.tools.send_keys("ArrowRight" if value < target else "ArrowLeft")
    raise LookupError("the slider does not arrive")


@task("form-sequence")
def slider_and_checkbox(page: Page):
    found = page.goal_match(r"Select (-?\d+) with the slider, click the (\w+) checkbox")
    set_slider(page, 0, int(found.group(1)))
    page.click(page.all("checkbox")[ordinal(found.group(2)) - 1])
    page.submit()


@task("form-sequence-2")
def radio_and_text(page: Page):
    found = page.goal_match(r'Check the (\w+) radio button and enter the number "(-?\d+)" into the (\w+) textbox')
    page.click(page.all("radio")[ordinal(found.group(1)) - 1])
    page.write(page.all("textbox")[ordinal(found.group(3)) - 1], found.group(2))
    page.submit()


@task("form-sequence-3")
def dropdown_and_button(page: Page):
    wanted, button = page.goal_match(r'Choose (.*) from the dropdown, then click the button labeled "(\w+)"').groups()
    page.click(next(line for line in page.all() if "▾" in line.name or ".selectric" in line.rest))
    page.wait_for(lambda: bool(page.all(named=wanted)))
    page.click(page.all(named=wanted)[-1])
    page.submit(button)


@task("multi-layouts", "multi-orderings")
def movie(page: Page):
    genre, director, year = page.goal_match(r"Search for (.*) movies directed by (.*) from year (\d+)").groups()
    values = {"genre": genre, "director": director, "year": year, "date": year}
    labels = [line.name.lower() for line in page.lines[1:] if not line.n and any(key in line.name.lower() for key in values)]
    for i, line in enumerate(page.all("textbox")):
        shown = line.name.lower() if any(key in line.name.lower() for key in values) else labels[i]
        page.write(line, next(value for key, value in values.items() if key in shown))
    page.look()
    page.click(next(line for line in page.all() if line.kind != "textbox" and line.name.strip("!") in ("Search", "Submit", "Go")))


@task("use-colorwheel", "use-colorwheel-2")
def color(page: Page):
    names = {"red": "ff0000", "lime": "00ff00", "blue": "0000ff", "green": "008000", "yellow": "ffff00", "purple": "800080",
             "orange": "ffa500", "teal": "008080", "aqua": "00ffff", "magenta": "ff00ff", "white": "ffffff", "black": "000000",
             "olive": "808000", "gray": "808080", "navy": "000080", "maroon": "800000", "silver": "c0c0c0", "fuchsia": "ff00ff", "pink": "ffc0cb",
             "brown": "a52a2a", "cyan": "00ffff", "violet": "ee82ee"}
    found = re.search(r"Select (\w+) with", page.goal)
    if found:
        code = names[found.group(1).lower()]
    else:
        shown = next(line for line in page.lines if line.n and re.search(r"#[0-9a-f]{6}", line.rest) and line.kind != "textbox")
        code = re.search(r"#([0-9a-f]{6})", shown.rest).group(1)
    page.write(page.one("textbox"), code)
    page.tools.send_keys("Tab")
    page.submit()


@task("book-flight", "book-flight-nodelay")
def flight(page: Page):
    goal = page.goal_match(r"Book the (\w+) one-way flight from: (.*) to: (.*) on (\d+)/(\d+)/(\d+)")
    which, start, end, month, day, year = goal.groups()
    for i, place in enumerate((start, end)):
        field = page.all("textbox")[i]
        page.click(field)
        page.write(field, place)
        page.tools.send_keys("ArrowDown")
        page.wait_for(lambda place=place: bool([line for line in page.all("listitem") if place in line.name]))
        page.tools.wait(0.3)
        page.look()
        page.click([line for line in page.all("listitem") if place in line.name][-1])
        page.look()
    pick_date(page, int(year), int(month), int(day))
    page.submit("Search")
    page.wait_for(lambda: bool([line for line in page.all("button") if "Book flight" in line.name]))
    offers = []
    for line in [line for line in page.all("button") if "Book flight" in line.name]:
        before = page.lines[: page.lines.index(line)]
        hours, minutes = re.search(r"(\d+)h (\d+)m", next(one.name for one in reversed(before) if re.search(r"\d+h \d+m", one.name))).groups()
        offers.append((int(hours) * 60 + int(minutes), number(line.name.split("$")[1]), line))
    page.click(min(offers, key=lambda offer: offer[0 if which == "shortest" else 1])[2])


@task("text-editor")
def editor(page: Page):
    words = next(line for line in page.all("generic") if line.value)
    wanted = re.search(r"give the text (.*?) the (?:style|color) (\w+)", page.goal)
    style = wanted.group(2) if wanted else page.goal_match(r"make everything (?:the color )?(\w+)").group(1)
    page.click(words)
    page.tools.send_keys("Control+a")
    if wanted:
        page.tools.send_keys("Control+Home")
        for _ in range(words.value.index(wanted.group(1))):
            page.tools.send_keys("ArrowRight")
        for _ in range(len(wanted.group(1))):
            page.tools.send_keys("Shift+ArrowRight")
    button = {"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}.get(style)
    if button:
        page.click(next(line for line in page.all("button") if line.marks == button))
        return page.submit()
    page.click(next(line for line in page.all("generic") if line.marks == ".ql-picker-label"))
    page.look()
    codes = {"red": "#e60000", "orange": "#ff9900", "yellow": "yellow", "green": "#008a00", "blue": "#0066cc", "purple": "#9933ff"}
    page.click(next(line for line in page.all() if ".ql-picker-item" in line.rest and line.has(codes[style])))
    page.submit()
