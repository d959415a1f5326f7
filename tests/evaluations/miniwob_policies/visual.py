"""Tasks that are told from a picture of the page, or from how it changes."""

from __future__ import annotations

from .base import Page, task


@task("simon-says")
def simon(page: Page):
    """Watches the buttons, and repeats what lit up."""
    usual = {line.n: look(line) for line in page.all("button")}
    order: list[int] = []
    lit, quiet = None, 0
    while quiet < 60:
        page.look()
        now = next((line.n for line in page.all("button") if look(line) != usual.get(line.n)), None)
        if now and now != lit:
            order.append(now)
        quiet = 0 if now else quiet + 1
        lit = now
        page.tools.wait(0.02)
        if not order and quiet > 50:
            quiet = 10
    by_number = {line.n: line for line in page.all("button")}
    for number in order:
        page.click(by_number[number])


def look(line) -> str:
    return next((word for word in line.rest.split() if word.startswith("#") and len(word) == 7), "")
