"""Presses CLICKS (default 2,000) elements of generated pages: each press acts on the element that was meant, or is refused.

    browser_clicks.py

OPENSKILL_BIN is the binary; DIRECT=1 drives the page script over CDP instead of a gateway; SEED (default 0) is the first page. It prints how many presses were
right, refused (by reason) and wrong, and fails if one was wrong, or if more than a quarter was refused that is not disabled.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from browser_direct import ToolError
from browser_pages import Pages
from miniwob import browser_of

TARGET = re.compile(r'\[(\d+)\] [a-z ]+ "(t\d*-\d+)')


class Server:
    """Serves the pages, and keeps what was pressed."""

    def __init__(self):
        self.pressed: list[str] = []
        self.came = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                path, _, query = self.path.partition("?")
                asked = {key: int(values[0]) for key, values in urllib.parse.parse_qs(query).items()}
                if path == "/page":
                    text = server.pages.page(asked["page"])
                elif path == "/frame":
                    text = server.pages.frame(asked["page"], asked["seed"], asked["first"], asked["depth"])
                else:
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode())

            def do_POST(self):
                name = self.rfile.read(int(self.headers["content-length"])).decode()
                with server.came:
                    server.pressed.append(name)
                    server.came.notify_all()
                self.send_response(204)
                self.end_headers()

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.pages = Pages(f"http://localhost:{self.http.server_port}" if not os.environ.get("DIRECT") else "")

    def url(self, page: int) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/page?page={page}"

    def take(self, seconds: float = 1.0) -> list[str]:
        """What was pressed since the last time, once something was."""
        with self.came:
            self.came.wait_for(lambda: self.pressed, seconds)
            pressed, self.pressed = self.pressed, []
            return pressed


def main() -> int:
    wanted = int(os.environ.get("CLICKS", "2000"))
    page = int(os.environ.get("SEED", "0"))
    server = Server()
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[dict] = []
    at = server.http.server_port
    with browser_of([f"127.0.0.1:{at}", f"localhost:{at}"]) as browser:
        while sum(counts.values()) < wanted:
            page += 1
            browser.navigate(server.url(page))
            targets = [found.groups() for line in browser.tree() if (found := TARGET.search(line))]
            for number, name in targets:
                try:
                    browser.click(int(number))
                except ToolError as error:
                    outcome = f"refused: {error.code}"
                    if stray := server.take(0.05):
                        outcome = "wrong"
                        wrong.append({"page": page, "meant": name, "pressed": stray, "refused": error.code})
                else:
                    pressed = server.take()
                    outcome = "right" if pressed == [name] else "wrong"
                    if pressed != [name]:
                        wrong.append({"page": page, "meant": name, "pressed": pressed})
                counts[outcome] += 1
    for one in wrong[:20]:
        print(json.dumps(one))
    total = sum(counts.values())
    refused = total - counts["right"] - counts["wrong"]
    print(json.dumps({"pages": page, "clicks": total, **dict(sorted(counts.items())), "refused": refused}))
    return int(counts["wrong"] > 0 or refused - counts["refused: disabled"] > total / 4)


if __name__ == "__main__":
    sys.exit(main())
