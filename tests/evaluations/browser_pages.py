"""Generated pages on which it is easy to press the wrong element.

A page is a tree of boxes: frames, open and closed shadow roots, transforms, zoom, scrollers in scrollers, sticky bars, and covers
that lie over a part or the whole of a target. Each target and each cover reports when it is pressed.
"""

from __future__ import annotations

import html
import random

# Runs in each frame: who was pressed is told to the server, the innermost element only.
REPORT = """<script>
function pressed(event, name) {
  event.stopPropagation();
  navigator.sendBeacon('/pressed?page=%(page)s', name);
}
</script>"""
STYLE = """<style>
body { margin: 8px; font: 14px sans-serif } .box { margin: 6px; padding: 4px; border: 1px solid #aaa }
.cover { position: absolute; background: rgba(200, 0, 0, .3); z-index: 5 } .wrap { position: relative; display: inline-block; margin: 3px }
button, a, .target { min-width: 60px; display: inline-block; background: #def; padding: 3px }
</style>"""


class Pages:
    """Pages by number: the same number is the same page."""

    def __init__(self, other_origin: str = ""):
        self.other_origin = other_origin

    def page(self, number: int) -> str:
        return Generator(number, self.other_origin).document(depth=0)

    def frame(self, number: int, seed: int, first: int, depth: int) -> str:
        generator = Generator(number, self.other_origin, seed)
        generator.count = first
        return generator.document(depth)


class Generator:
    def __init__(self, page: int, other_origin: str, seed: int | None = None):
        self.page = page
        self.other_origin = other_origin
        self.random = random.Random(f"page {page} {seed}")
        self.count = 0

    def document(self, depth: int) -> str:
        boxes = "".join(self.box(depth, 0) for _ in range(self.random.randint(2, 4 if depth == 0 else 2)))
        bar = ""
        if self.random.random() < 0.3:
            bar = f'<div style="position:sticky;top:0;background:#ffd;z-index:9" onclick="pressed(event,\'bar\')">bar of {depth}</div>'
        return f"<!DOCTYPE html><meta charset=utf-8><title>Page {self.page}</title>{STYLE}{REPORT % {'page': self.page}}{bar}{boxes}"

    def box(self, depth: int, level: int) -> str:
        inner = [self.target() for _ in range(self.random.randint(1, 3))]
        if level < 3:
            inner += [self.box(depth, level + 1) for _ in range(self.random.randint(0, 1))]
        if depth < 2 and self.random.random() < 0.2:
            inner.append(self.frame_element(depth))
        self.random.shuffle(inner)
        shape = self.random.choice(self.SHAPES)
        return shape(self, "".join(inner))

    def plain(self, inner: str) -> str:
        return f'<div class="box">{inner}</div>'

    def moved(self, inner: str) -> str:
        change = self.random.choice(["scale(.6)", "scale(1.4)", "rotate(12deg)", "rotate(90deg)", "skewX(15deg)", "translate(30px,8px)", "rotateX(30deg)",
                                     "scaleX(-1)"])
        return f'<div class="box" style="width:300px;transform:{change};transform-origin:{self.random.choice(["0 0", "50% 50%"])}">{inner}</div>'

    def zoomed(self, inner: str) -> str:
        return f'<div class="box" style="zoom:{self.random.choice([0.5, 0.8, 1.25, 2])}">{inner}</div>'

    def scroller(self, inner: str) -> str:
        above = self.random.randint(0, 400)
        return (f'<div class="box" style="height:{self.random.randint(60, 140)}px;width:320px;overflow:auto">'
                f'<div style="height:{above}px"></div><div style="width:{self.random.randint(200, 700)}px">{inner}</div>'
                f'<div style="height:{self.random.randint(0, 300)}px"></div></div>')

    def clipped(self, inner: str) -> str:
        return f'<div class="box" style="height:70px;overflow:hidden">{inner}</div>'

    def shadow(self, inner: str) -> str:
        mode = self.random.choice(["open", "closed"])
        if self.random.random() < 0.5:
            return f'<div class="box"><template shadowrootmode="{mode}">{STYLE}<div>{inner}</div></template></div>'
        return f'<div class="box"><template shadowrootmode="{mode}">{STYLE}<b>slot: </b><slot></slot>{self.target()}</template>{inner}</div>'

    def pushed(self, inner: str) -> str:
        return f'<div style="height:{self.random.randint(50, 900)}px"></div><div class="box">{inner}</div>'

    def columns(self, inner: str) -> str:
        return f'<div class="box" style="columns:2;width:420px">{inner}</div>'

    SHAPES = [plain, moved, moved, zoomed, scroller, scroller, clipped, shadow, shadow, pushed, columns]

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def target(self) -> str:
        name = self.name(f"t{self.random.randint(100, 999)}")
        on = f'onclick="pressed(event,\'{name}\')"'
        kind = self.random.choice(["button", "button", "link", "div", "check", "wrapped", "disabled", "svg", "label"])
        if kind == "button":
            body = f"<button {on}>{name}</button>"
        elif kind == "disabled":
            body = f"<button disabled {on}>{name}</button>"
        elif kind == "link":
            body = f'<a href="#" {on}>{name} <i>and</i> more words of a link that may wrap over lines</a>'
        elif kind == "check":
            body = f'<label><input type="checkbox" {on}>{name}</label>'
        elif kind == "label":
            body = f'<input type="radio" aria-label="{name}" {on} style="width:20px;height:20px">'
        elif kind == "svg":
            body = f'<span role="button" class="target" aria-label="{name}" {on}><svg width="18" height="18"><circle cx="9" cy="9" r="8"/></svg></span>'
        elif kind == "wrapped":
            inner = self.name("t")
            body = f'<div class="target" tabindex="0" {on} style="padding:8px">{name}<button onclick="pressed(event,\'{inner}\')">{inner}</button></div>'
        else:
            body = f'<div class="target" tabindex="0" {on}>{name}</div>'
        return f'<span class="wrap">{body}{self.cover()}</span> '

    def cover(self) -> str:
        kind = self.random.choice([None] * 5 + ["left", "right", "whole", "through", "hole"])
        places = {"left": "left:0;top:0;width:55%;height:100%", "right": "right:0;top:0;width:55%;height:100%", "whole": "inset:-2px", "through": "inset:0",
                  "hole": "inset:0 0 20% 0"}
        if kind is None:
            return ""
        more = ";pointer-events:none" if kind == "through" else ""
        return f'<span class="cover" style="{places[kind]}{more}" onclick="pressed(event,\'cover\')"></span>'

    def frame_element(self, depth: int) -> str:
        seed = self.random.randint(1, 10**6)
        self.count += 1000
        path = f"/frame?page={self.page}&seed={seed}&first={self.count}&depth={depth + 1}"
        origin = self.other_origin if self.random.random() < 0.4 else ""
        look = self.random.choice(["", "", "border:6px solid #888", "padding:9px", "transform:scale(.8)", "zoom:1.3", "transform:rotate(5deg)"])
        size = f"width:{self.random.randint(250, 420)}px;height:{self.random.randint(90, 260)}px"
        self.count += 1000
        return f'<iframe title="frame {seed}" src="{html.escape(origin + path)}" style="{size};{look}"></iframe>'
