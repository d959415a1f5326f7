"""Tasks that are solved by pressing what the goal names."""

from __future__ import annotations

import functools
import re

from .base import Page, ordinal, task


@task("click-test")
def the_button(page: Page):
    page.click(page.one("button"))


@task("click-test-2", "click-test-transfer")
def named_button(page: Page):
    page.click(page.goal_match(r"button (\w+)").group(1), "button")


@task("click-button", "unicode-test")
def quoted_button(page: Page):
    page.click(page.quoted(), "button")


@task("click-button-sequence")
def two_buttons(page: Page):
    page.click("ONE", "button")
    page.click("TWO", "button")


@task("button-delay")
def two_buttons_with_a_pause(page: Page):
    seconds = int(page.goal_match(r"wait (\d+)").group(1))
    one, two = page.one("button", named="ONE"), page.one("button", named="TWO")
    page.click(one)
    page.tools.wait(seconds - 0.1)
    page.click(two)


@task("click-link")
def quoted_link(page: Page):
    page.click(page.quoted())


@task("click-dialog", "click-dialog-2")
def dialog_button(page: Page):
    wanted = page.quoted()
    close = {"x": "close"}.get(wanted, wanted).lower()
    page.click(next(line for line in page.all("button") if line.name.lower() in (close, wanted.lower())))


@task("click-option")
def radio(page: Page):
    page.click(page.goal_match(r"Select (.*) and click").group(1), "radio")
    page.submit()


@task("click-checkboxes", "click-checkboxes-transfer", "click-checkboxes-large")
def checkboxes(page: Page):
    for name in page.goal_match(r"Select (.*) and click").group(1).split(", "):
        if name != "nothing":
            page.click(name, "checkbox")
    page.submit()


@task("click-checkboxes-soft")
def similar_words(page: Page):
    """Groups of words that mean alike: what a reader knows."""
    wanted = page.goal_match(r"similar to (.*) and click").group(1).split(", ")
    for line in page.all("checkbox"):
        if any({line.name, word} <= group for group in SIMILAR for word in wanted):
            page.click(line)
    page.submit()


@task("click-tab")
def tab(page: Page):
    page.click(page.goal_match(r"(Tab #\d+)").group(1), "tab")


@task("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def link_behind_tabs(page: Page):
    wanted = page.quoted()
    for title in [line.name for line in page.all("tab")]:
        found = page.all("generic", named=wanted)
        if found:
            return page.click(found[-1])
        page.click(title, "tab")
        page.wait_for(lambda title=title: page.one("tab", named=title).has("selected"))
    page.click(page.all("generic", named=wanted)[-1])


@task("click-collapsible", "click-collapsible-nodelay")
def open_and_submit(page: Page):
    page.click(page.one("tab"))
    page.wait_for(lambda: settled(page, "button"))
    page.submit()


def settled(page: Page, *kinds: str) -> bool:
    """Whether the page lists the same elements twice in a row."""
    before = [line.n for line in page.all()]
    page.tools.wait(0.15)
    page.look()
    return bool(page.all(*kinds)) and before == [line.n for line in page.all()]


@task("click-collapsible-2", "click-collapsible-2-nodelay")
def link_behind_sections(page: Page):
    wanted = page.quoted()
    for title in [line.name for line in page.all("tab")]:
        if not page.one("tab", named=title).has("expanded"):
            page.click(title, "tab")
        page.wait_for(lambda: settled(page))
        found = page.all("generic", named=wanted)
        if found:
            return page.click(found[0])
    raise LookupError(f"no section holds {wanted}")


@task("click-widget")
def widget(page: Page):
    kind = page.quoted()
    kinds = {"text": "textbox", "textarea": "textbox"}.get(kind, kind)
    for line in page.all(kinds):
        if kinds != "textbox" or line.has("multiline") == (kind == "textarea"):
            return page.click(line)
    raise LookupError(kind)


@task("click-color")
def colored_box(page: Page):
    if found := re.search(r"Click on the (\w+) colored", page.goal):
        color = found.group(1)
    else:
        color = next(line for line in page.all("generic") if line.box and line.box[0] < 30).rest.split()[-4]
    page.click(next(line for line in page.all("generic") if line.box and line.box[0] > 30 and line.has(color)))


@task("click-shades")
def shades(page: Page):
    wanted = page.goal_match(r"shades of (\w+)").group(1)
    for line in page.all("generic"):
        found = re.search(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", line.rest)
        if found:
            parts = dict(zip(("red", "green", "blue"), (int(part, 16) for part in found.groups())))
            if max(parts, key=parts.get) == wanted:
                page.click(line)
    page.submit()


@task("click-menu")
def menu_path(page: Page):
    *path, leaf = page.goal_match(r"Select (.*)").group(1).split(">")
    page.tools.send_keys("Tab")
    shown: set[int] = set()
    for name in [*path, leaf]:
        page.look()
        items = [line for line in page.all("menuitem") if line.n not in shown]
        shown |= {line.n for line in items}
        for _ in range([line.name for line in items].index(name)):
            page.tools.send_keys("ArrowDown")
        page.tools.send_keys("Enter" if name == leaf else "ArrowRight")


ICONS = {"disk": "Save", "seek-start": "Prev", "stop": "Stop", "play": "Play", "seek-end": "Next", "zoomin": "Zoom In", "zoomout": "Zoom Out"}


@task("click-menu-2")
def menu_item(page: Page):
    if '"' in page.goal.replace('"Menu"', ""):
        wanted = page.quoted(1)
    else:
        wanted = None
    page.click("Menu", "button")
    page.wait_for(lambda: bool(page.all("menuitem")))
    if wanted in ("Prev", "Stop", "Play", "Next"):
        page.click("Playback", "menuitem")
        page.wait_for(lambda: bool(page.all("menuitem", named=wanted)) and settled(page))
    page.click(wanted, "menuitem")


@task("focus-text")
def focus(page: Page):
    page.click(page.one("textbox"))


@task("focus-text-2")
def focus_nth(page: Page):
    page.click(page.all("textbox")[ordinal(page.goal) - 1])


@task("navigate-tree")
def file_tree(page: Page):
    wanted = page.quoted()
    opened: set[str] = set()
    for _ in range(20):
        named = [line for line in page.all() if line.name == wanted]
        if named:
            return page.click(named[-1])
        areas = [line for line in page.lines if ".expandable-hitarea" in line.rest]
        closed = next(line for line in areas if page.after(line)[0].name not in opened)
        opened.add(page.after(closed)[0].name)
        page.click(closed)
        page.wait_for(lambda: settled(page))
    raise LookupError(wanted)


@task("social-media")
def one_post(page: Page):
    user = page.goal_match(r"user @(\w+)").group(1)
    wanted = page.quoted()
    post = next(line for line in page.lines[1:] if line.kind == "text" and re.search(rf"@{user}\d*[hms]", line.name))
    below = page.after(post)
    direct = {"like": ".like", "reply": ".reply", "retweet": ".retweet"}.get(wanted.lower())
    if direct:
        return page.click(next(line for line in below if line.n and line.marks.startswith(direct)))
    page.click(next(line for line in below if line.n and line.marks.startswith(".more")))
    page.wait_for(lambda: any(line.name.lower().startswith(wanted.lower()) for line in page.all()))
    page.click(next(line for line in page.all() if line.name.lower().startswith(wanted.lower())))


@task("social-media-all", "social-media-some")
def several_posts(page: Page):
    found = page.goal_match(r'"(\w+)" button on (all|\d+) posts? by @(\w+)')
    action, count, user = found.groups()
    left = 10**6 if count == "all" else int(count)
    inside = False
    for line in list(page.lines[1:]):
        if line.kind == "text" and "@" in line.name:
            inside = line.name.endswith(f"@{user}")
        elif inside and left and line.n and line.marks == f".{action.lower()}":
            page.click(line)
            left -= 1
            inside = False
    page.submit()


@task("tic-tac-toe")
def win(page: Page):
    """Plays for the best odds against somebody who wins or blocks when it is possible, and plays at random now and then."""
    for _ in range(5):
        board = cells(page)
        if len(board) < 9:
            return
        state = "".join(mark(line) for line in board)
        page.click(board[max((i for i in range(9) if state[i] == "."), key=lambda i: odds(put(state, i, "x"), "o"))])
        page.tools.wait(0.3)
        page.look()


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
AT_RANDOM = 0.3


def cells(page: Page):
    return [line for line in page.all("generic") if line.marks.startswith("#ttt")][:9]


def mark(line) -> str:
    found = re.search(r"mark-([xo])", line.rest)
    return found.group(1) if found else "."


def put(board: str, i: int, side: str) -> str:
    return board[:i] + side + board[i + 1:]


def completing(board: str, side: str) -> list[int]:
    return [line[values.index(".")] for line in LINES if (values := [board[i] for i in line]).count(side) == 2 and "." in values]


@functools.cache
def odds(board: str, turn: str) -> float:
    """How likely x wins."""
    for line in LINES:
        if board[line[0]] != "." and len({board[i] for i in line}) == 1:
            return float(board[line[0]] == "x")
    free = [i for i in range(9) if board[i] == "."]
    if not free:
        return 0.0
    if turn == "x":
        return max(odds(put(board, i, "x"), "o") for i in free)
    any_move = sum(odds(put(board, i, "o"), "x") for i in free) / len(free)
    forced = completing(board, "o") or completing(board, "x")
    return any_move if not forced else AT_RANDOM * any_move + (1 - AT_RANDOM) * odds(put(board, forced[0], "o"), "x")


SIMILAR: list[set[str]] = []


@task("sign-agreement")
def agreement(page: Page):
    if page.goal.startswith("Click the cancel"):
        return page.click("Cancel", "button")
    name, button = page.quoted(0), page.quoted(1)
    page.tools.scroll(100000)
    page.wait_for(lambda: not page.one("textbox", named="Name").has("disabled"))
    page.write(page.one("textbox", named="Name"), name)
    page.submit(button)


@task("find-greatest")
def greatest_card(page: Page):
    cards = [line for line in page.all("generic") if re.fullmatch(r"\d*", line.name)]
    best_card, best_value = None, -1
    for i in range(len(cards)):
        page.click(cards[i])
        page.look()
        cards = [line for line in page.all("generic") if re.fullmatch(r"\d*", line.name)]
        value = int(cards[i].name or -1)
        if value > best_value:
            best_card, best_value = i, value
    page.click(cards[best_card])
    page.submit()


@task("odd-or-even")
def odd_or_even(page: Page):
    lines = [line for line in page.lines[1:] if line.n or line.kind == "text"]
    for i, line in enumerate(lines):
        if line.kind == "text" and re.fullmatch(r"-?\d+", line.name):
            page.click(lines[i + 1] if int(line.name) % 2 == 0 else lines[i - 1])
    page.submit()


@task("phone-book")
def phone_book(page: Page):
    name, what = page.goal_match(r"Find ([\w-]+) in the contact book and click on their (.*)\.").groups()
    label = {"phone number": "Phone:", "email": "Email:", "address": "Address:"}[what]
    for _ in range(15):
        title = next(line for line in page.lines if line.kind == "heading")
        if title.name == name:
            after = page.after(next(line for line in page.lines if line.name == label))
            return page.click(next(line for line in after if line.n))
        page.click(">", "link")
        page.wait_for(lambda title=title: title.name not in [line.name for line in page.lines if line.kind == "heading"])
    raise LookupError(name)


@task("scroll-text-2")
def scroll_in_field(page: Page):
    page.tools.scroll(100000 if "bottom" in page.goal else -100000)
    page.submit()
