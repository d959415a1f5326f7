"""The mailbox tasks: one mailbox, many ways to ask."""

from __future__ import annotations

import re

from .base import Line, Page, task


@task("email-inbox", "email-inbox-delete", "email-inbox-important", "email-inbox-noscroll", "email-inbox-reply", "email-inbox-star-reply",
      "email-inbox-forward", "email-inbox-forward-nl", "email-inbox-forward-nl-turk", "email-inbox-nl-turk")
def mail(page: Page):
    sender = sender_of(page)
    text = re.search(r'"(.*?)"', page.goal)
    goal = page.goal.lower()
    row = row_of(page, sender)
    inside = page.after(row)
    if text:
        return reply(page, row, text.group(1))
    if re.search(r"trash|delete|bin\b|discard|get rid|remove|erase", goal):
        return page.click(next(line for line in inside if line.n and line.marks.startswith(".trash")))
    if re.search(r"star|important|favou?rite", goal):
        return page.click(next(line for line in inside if line.n and line.marks.startswith(".star")))
    forward(page, row, receiver_of(page, sender))


def names_in(page: Page) -> set[str]:
    senders = [line for line in page.lines if ".email-thread" in line.rest]
    return {page.after(line)[0].name for line in senders}


def sender_of(page: Page) -> str:
    """The first name of the goal from whom there is mail; a name after `by` or `from` before others."""
    senders = names_in(page)
    words = re.findall(r"[A-Z][a-z]+(?:-[A-Z][a-z]+)?", page.goal)
    for pattern in (r"(?:\bby|\bfrom) ([A-Z][a-z]+(?:-[A-Z][a-z]+)?)", r"([A-Z][a-z]+(?:-[A-Z][a-z]+)?)'s", r"([A-Z][a-z]+(?:-[A-Z][a-z]+)?) sent", r"([A-Z][a-z]+(?:-[A-Z][a-z]+)?) wants his"):
        for name in re.findall(pattern, page.goal):
            if name in senders:
                return name
    return next(word for word in words if word in senders)


def receiver_of(page: Page, sender: str) -> str:
    body = re.sub(r"^(Find|Locate|Look|Forward|Send|Go|Please|Give|Navigate|Search|Get|Open|The|I)\b", "", page.goal)
    names = [name for name in re.findall(r"\b[A-Z][a-z]+(?:-[A-Z][a-z]+)?\b", body) if name != sender and name not in STARTS]
    return names[-1] if names else sender


STARTS = {"Find", "Locate", "Look", "Forward", "Send", "Go", "Please", "Give", "Navigate", "Search", "Get", "Open", "The", "I", "Email", "Inbox", "Primary", "Then", "It", "Can", "You", "Could", "Will", "My", "Share", "Pass"}


def row_of(page: Page, sender: str) -> Line:
    for _ in range(2):
        for line in page.lines:
            if ".email-thread" in line.rest and page.after(line)[0].name == sender:
                return line
    raise LookupError(f"no mail by {sender}")


def opened(page: Page, row: Line, button: str):
    page.click(row)
    page.wait_for(lambda: any(line.marks.startswith(button) or line.name == button for line in page.all()))
    page.click(next(line for line in page.all() if line.marks.startswith(button) or line.name == button))


def reply(page: Page, row: Line, text: str):
    opened(page, row, "Reply")
    page.wait_for(lambda: bool(page.fields()))
    page.write(page.fields()[0], text)
    page.look()
    page.click(next(line for line in page.all() if line.marks == "#send-reply"))


def forward(page: Page, row: Line, to: str):
    opened(page, row, "Forward")
    page.wait_for(lambda: bool(page.fields()))
    page.write(page.fields()[0], to)
    page.look()
    page.click(next(line for line in page.all() if line.marks == "#send-forward"))
