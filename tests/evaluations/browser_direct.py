"""The page script driven over CDP, without a gateway: for work on the script alone.

The answers are those of the `browser_*` skills, so a policy can't tell the two drivers apart.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "crates/builtins/src/browser/page"
LISTENED = {
    "click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart", "contextmenu",
    "dragstart", "keydown", "mouseover", "mouseenter", "mousemove",
}
KEYS = {
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), "Backspace": ("Backspace", 8, ""),
    "Space": (" ", 32, " "), "Delete": ("Delete", 46, ""), "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""), "ArrowDown": ("ArrowDown", 40, ""), "Home": ("Home", 36, ""),
    "End": ("End", 35, ""), "PageUp": ("PageUp", 33, ""), "PageDown": ("PageDown", 34, ""),
}
MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class ToolError(Exception):
    """A tool refused; `code` says why."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code


def script() -> str:
    return "".join(path.read_text() for path in sorted(PAGE.glob("*.js")))


class PageScript:
    """The script in an isolated world of one frame."""

    def __init__(self, cdp, frame: str | None = None):
        self.cdp = cdp
        self.frame = frame or cdp.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self.context = cdp.send("Page.createIsolatedWorld", {"frameId": self.frame, "worldName": "tools"})["executionContextId"]
        answer = cdp.send("Runtime.evaluate", {"contextId": self.context, "expression": script()})
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        self.object = answer["result"]["objectId"]
        self.told: set[int] = set()
        self.parent: tuple[PageScript, int] | None = None

    def method(self, function: str, arguments: list, by_value: bool = True):
        return self.cdp.send(*self._function(function, arguments, by_value))["result"]

    def _function(self, function: str, arguments: list, by_value: bool) -> tuple[str, dict]:
        return "Runtime.callFunctionOn", {
            "objectId": self.object, "functionDeclaration": function, "arguments": arguments,
            "returnByValue": by_value, "awaitPromise": True,
        }

    def asked(self, name: str, **args) -> tuple[str, dict]:
        """The call of CDP that asks the script."""
        return self._function("function(n,a){return this.call(n,a)}", [{"value": name}, {"value": args}], True)

    def raw(self, name: str, **args) -> str:
        return self.cdp.send(*self.asked(name, **args))["result"]["value"]

    def call(self, name: str, **args):
        return self.read(self.raw(name, **args))

    @staticmethod
    def read(text: str):
        answer = json.loads(text)
        if answer["ok"]:
            return answer["value"]
        raise ToolError(answer["error"]["code"], json.dumps(answer["error"], ensure_ascii=False))

    def owner_of(self, frame: str) -> int:
        """The number of the element that shows a frame of this document."""
        owner = self.cdp.send("DOM.getFrameOwner", {"frameId": frame})["backendNodeId"]
        found = self.cdp.send("DOM.resolveNode", {"backendNodeId": owner, "executionContextId": self.context})["object"]
        return self.method("function(e){return this.number(e)}", [{"objectId": found["objectId"]}])["value"]

    def show_closed_roots(self, hosts: int) -> bool:
        roots = []
        for i in range(hosts):
            host = self.method("function(i){return this.host(i)}", [{"value": i}], by_value=False)
            if "objectId" not in host:
                continue
            seen = self.cdp.send("DOM.describeNode", {"objectId": host["objectId"], "depth": 1, "pierce": True})["node"]
            for root in seen.get("shadowRoots", []):
                if root["shadowRootType"] == "closed":
                    target = {"backendNodeId": root["backendNodeId"], "executionContextId": self.context}
                    roots.append({"objectId": self.cdp.send("DOM.resolveNode", target)["object"]["objectId"]})
        if roots:
            self.method("function(...r){return this.adopt(...r)}", roots)
        return bool(roots)

    def tell_listeners(self, main_world: int | None = None):
        """Hands over the elements that listen: an isolated world doesn't see them."""
        where = {} if main_world is None else {"contextId": main_world}
        document = self.cdp.send("Runtime.evaluate", {"expression": "document", **where})["result"]["objectId"]
        found = self.cdp.send("DOMDebugger.getEventListeners", {"objectId": document, "depth": -1, "pierce": True})
        kinds: dict[int, list[str]] = {}
        for one in found["listeners"]:
            if one["type"] in LISTENED and one.get("backendNodeId", 0) and one["backendNodeId"] not in self.told:
                kinds.setdefault(one["backendNodeId"], []).append(one["type"])
        arguments = []
        for node, types in list(kinds.items())[:500]:
            self.told.add(node)
            with contextlib.suppress(Exception):  # a node of another document
                target = {"backendNodeId": node, "executionContextId": self.context}
                resolved = self.cdp.send("DOM.resolveNode", target)["object"]
                arguments += [{"objectId": resolved["objectId"]}, {"value": ",".join(types)}]
        if arguments:
            self.method("function(...e){return this.heard(...e)}", arguments)


class DirectBrowser:
    """One tab with the tools that the policies use."""

    def __init__(self, playwright_page):
        self.page = playwright_page
        self.cdp = playwright_page.context.new_cdp_session(playwright_page)
        self.cdp.send("DOM.enable")
        self.script: PageScript | None = None
        self.frames: dict[str, PageScript] = {}
        self.numbers: list[tuple[PageScript, int]] = []

    def navigate(self, url: str):
        self.page.goto(url)
        self.script = PageScript(self.cdp)
        self.frames = {self.script.frame: self.script}
        self.numbers = [(self.script, 0)]

    def tree(self) -> list[str]:
        return self._tree(self.cdp.send("Page.getFrameTree")["frameTree"], self.script, 0)

    def _tree(self, node: dict, script: PageScript, depth: int) -> list[str]:
        if script is self.script:
            script.tell_listeners()
        answer = script.call("lines", budget={"lines": 1000})
        if script.show_closed_roots(answer["hosts"]):
            answer = script.call("lines", budget={"lines": 1000})
        children = {}
        for child in node.get("childFrames", []):
            frame = child["frame"]["id"]
            if frame not in self.frames:
                self.frames[frame] = PageScript(self.cdp, frame)
                self.frames[frame].parent = (script, script.owner_of(frame))
            children[self.frames[frame].parent[1]] = child
        out = []
        for one in answer["lines"]:
            number = f"[{self._number(script, one['n'])}] " if one["n"] else ""
            out.append("  " * (depth + one["d"]) + number + one["t"])
            if one["n"] in children:
                child = children[one["n"]]
                out += self._tree(child, self.frames[child["frame"]["id"]], depth + one["d"] + 1)
        return out

    def _number(self, script: PageScript, local: int) -> int:
        if (script, local) not in self.numbers:
            self.numbers.append((script, local))
        return self.numbers.index((script, local))

    def _on_screen(self, script: PageScript, x: float, y: float) -> tuple[float, float]:
        """A point of a frame in the viewport of the page."""
        while script.parent:
            width, height = script.call("info")["viewport"]
            script, owner = script.parent[0], {"number": script.parent[1], "x": x, "y": y, "width": width, "height": height}
            point = script.call("enter", **owner)
            x, y = point["x"], point["y"]
        return x, y

    def content(self, selector: str = "") -> str:
        return "\n\n".join(block["text"] for block in self.script.call("content", selector=selector)["blocks"])

    def click(self, index: int):
        script, local = self.numbers[index]
        refused = None
        for point in script.call("locate", number=local)["points"]:
            try:
                x, y = self._on_screen(script, *point)
            except ToolError as error:
                refused = error
                continue
            seen = self._hover(script, (x, y), {"number": local, "x": point[0], "y": point[1]})
            if seen["hit"]:
                break
            refused = ToolError("covered", f"covered by {seen['by']}")
        else:
            raise refused
        self._press(x, y)
        self._settle()

    def _hover(self, script: PageScript, point: tuple[float, float], element: dict) -> dict:
        """Asks whether the pointer hits the element while it moves there, as the tools do."""
        return script.read(self._together(self._event("mouseMoved", *point), script.asked("hits", **element))[1]["result"]["value"])

    def _press(self, x: float, y: float):
        """Sends both events before it waits for either, as the tools and Playwright do."""
        self._together(self._event("mousePressed", x, y, 1), self._event("mouseReleased", x, y))

    def _together(self, *calls: tuple[str, dict]) -> list[dict]:
        """Sends calls before it waits for the answers. Playwright's blocking interface can't."""
        session = self.cdp._impl_obj

        async def all_of_them():
            return await asyncio.gather(*(session.send(method=it[0], params=it[1], timeout=None) for it in calls))

        return self.cdp._sync(all_of_them())

    def _mouse(self, kind: str, x: float, y: float, buttons: int = 0):
        self.cdp.send(*self._event(kind, x, y, buttons))

    @staticmethod
    def _event(kind: str, x: float, y: float, buttons: int = 0) -> tuple[str, dict]:
        button = "none" if kind == "mouseMoved" and not buttons else "left"
        clicks = int(kind != "mouseMoved")
        event = {"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks}
        return "Input.dispatchMouseEvent", event

    def _settle(self):
        with contextlib.suppress(Exception):  # the page may have been left
            self.script.call("settle", quiet_ms=40, most_ms=600)

    def input_text(self, index: int, text: str):
        script, local = self.numbers[index]
        plan = script.call("prepare_text", number=local)
        if plan["do"] == "set":
            script.call("set_value", number=local, text=text)
        elif text:
            self.cdp.send("Input.insertText", {"text": text})
        elif plan["value"]:
            self.send_keys("Backspace")
        self._settle()

    def send_keys(self, keys: str):
        *held, key = keys.split("+") if len(keys) > 1 else [keys]
        modifiers = sum(MODIFIERS[one] for one in held)
        name, code, text = KEYS.get(key) or (key, ord(key.upper()), key)
        event = {"key": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        if modifiers == 2 and key.lower() in "acvx":
            event["commands"] = [{"a": "selectAll", "c": "copy", "v": "paste", "x": "cut"}[key.lower()]]
        if text and modifiers in (0, 8):
            event["text"] = text
        self.cdp.send("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        event.pop("text", None)
        event.pop("commands", None)
        self.cdp.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})
        self._settle()

    def options(self, index: int) -> list[str]:
        script, local = self.numbers[index]
        return [one["text"] for one in script.call("options", number=local)["options"]]

    def select(self, index: int, text: str):
        script, local = self.numbers[index]
        for _ in range(3):
            done = script.call("choose", number=local, text=text)
            if done.get("done"):
                return self._settle()
            self.click(self._number(script, done["click"]) if "click" in done else index)
            if "click" in done:
                return None
        raise ToolError("not_open", "the list does not open")

    def drag(self, source: tuple[float, float], target: tuple[float, float], steps: int = 10):
        (x, y), (to_x, to_y) = source, target
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y, buttons=1)
        for step in range(1, steps + 1):
            part = step / steps
            self._mouse("mouseMoved", x + (to_x - x) * part, y + (to_y - y) * part, buttons=1)
        self._mouse("mouseReleased", to_x, to_y)
        self._settle()

    def scroll(self, amount: int):
        self.script.call("scroll", dy=amount)

    def scroll_to_text(self, text: str) -> str:
        found = self.script.call("find_text", text=text)
        if not found["found"]:
            raise ToolError("no_match", f"no {text}")
        return f"scrolled to it at x,y,w,h: {','.join(map(str, found['box']))}"

    def wait(self, seconds: float):
        time.sleep(seconds)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.cdp.send("Page.captureScreenshot", {"format": "png"})["data"])


