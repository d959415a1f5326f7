"""Tasks that are told from a picture of the page, or from how it changes."""

from __future__ import annotations

from .base import Page, task


@task("simon-says")
def simon(page: Page):
    raise LookupError("not yet")
