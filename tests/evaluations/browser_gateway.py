"""The `browser_*` skills of a real gateway, behind the same methods as `browser_direct.DirectBrowser`."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from browser_direct import ToolError

ROOT = Path(__file__).resolve().parents[2]
# Where the page that a model sees is longer than a policy needs.
MOST_LINES = 1000


class GatewayBrowser:
    """One session of a gateway. A refusal is a ToolError with the reason that the tool gives."""

    def __init__(self, port: int, session: str = "evaluation", process: subprocess.Popen | None = None):
        self.port = port
        self.session = session
        self.process = process
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(self, tool: str, **given):
        body = {"input": given, "session_id": self.session, "timeout_ms": 60000}
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", f"/skills/browser_{tool}:invoke", json.dumps(body), headers)
        answer = json.loads(self.connection.getresponse().read())
        if answer.get("success"):
            return answer["data"]
        error = answer.get("error") or answer
        details = error.get("details")
        with contextlib.suppress(TypeError, ValueError):
            details = json.loads(details)
        reason = details.get("reason") if isinstance(details, dict) else None
        raise ToolError(reason or error.get("code", "?"), error.get("message", str(answer)))

    def navigate(self, url: str):
        self.call("navigate", url=url)

    def tree(self) -> list[str]:
        return self.call("get_ax_tree", number_of_elements=MOST_LINES)["lines"]

    def content(self, selector: str = "") -> str:
        return self.call("get_content", selector=selector)["content"]

    def click(self, index: int):
        return self.call("click_element", index=index)

    def input_text(self, index: int, text: str):
        return self.call("input_text", index=index, text=text)

    def send_keys(self, keys: str):
        return self.call("send_keys", keys=keys)

    def select(self, index: int, text: str):
        return self.call("select_dropdown_option", index=index, text=text)

    def drag(self, source: tuple[float, float], target: tuple[float, float], steps: int = 10):
        (from_x, from_y), (to_x, to_y) = source, target
        return self.call("drag_drop", coord_source_x=round(from_x), coord_source_y=round(from_y), coord_target_x=round(to_x),
                         coord_target_y=round(to_y), steps=steps)

    def scroll(self, amount: int):
        return self.call("scroll_down" if amount > 0 else "scroll_up", amount=abs(amount))

    def scroll_to_text(self, text: str) -> str:
        return self.call("scroll_to_text", text=text)["done"]

    def wait(self, seconds: float):
        time.sleep(seconds)


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


@contextlib.contextmanager
def gateway(allowed: list[str], more: dict[str, str] | None = None, log=None):
    """`openskill up` with one worker and the shipped skills; the browser may reach the addresses `allowed`. `more`: settings;
    `log`: a file for what it logs."""
    port = free_port()
    with tempfile.TemporaryDirectory() as own:
        os.chmod(own, 0o755)
        (Path(own) / "data").mkdir()
        env = {
            "PATH": os.environ["PATH"], "HOME": own, "OPENSKILL_LISTEN": f"127.0.0.1:{port}",
            "OPENSKILL_CLI_DIR": str(ROOT / "worker/skills"), "OPENSKILL_ALLOWED_ROOT": f"{own}/data", "OPENSKILL_TRACE_DIR": "off",
            "OPENSKILL_LOG": "warn", "OPENSKILL_BROWSER_ALLOW": ",".join(allowed), **(more or {}),
        }
        binary = str(Path(os.environ["OPENSKILL_BIN"]).resolve())
        process = subprocess.Popen([binary, "up", "--workers", "1"], env=env, cwd=own, stdout=subprocess.DEVNULL, stderr=log)
        try:
            wait_for_browser(port, process)
            yield GatewayBrowser(port, process=process)
        finally:
            process.terminate()
            process.wait(30)


def wait_for_browser(port: int, process: subprocess.Popen):
    deadline = time.monotonic() + 60
    reason = "it does not answer"
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/skills/browser_navigate")
            skill = json.loads(connection.getresponse().read())
            if skill.get("status") == "available":
                return
            reason = skill.get("status_reason") or str(skill)
        time.sleep(0.1)
    raise SystemExit(f"the gateway has no browser: {reason}")


