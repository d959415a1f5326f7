"""Counts what browsers ask for when nobody asks them for anything: connections at the relay, their only way out.

    browser_alone.py      MINUTES (default 5)

Three browsers are left alone: one that shows no page, one that shows a page which it has loaded, and a spare. It prints what the
relay was asked for, and fails if that is anything but the page.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time

from browser_gateway import GatewayBrowser, gateway
from local_site import serve

RELAY = "openskill_builtins::browser::relay"
# The page, and the picture that browsers ask for beside each page.
OF_PAGE = 8
PAGE = b"<title>A page</title><form><input type=password name=p><input name=email></form><p>A page."


def main() -> int:
    minutes = float(os.environ.get("MINUTES", "5"))
    address = serve(lambda _: PAGE)
    with tempfile.NamedTemporaryFile("w+") as log:
        more = {"OPENSKILL_LOG": f"warn,{RELAY}=debug", "OPENSKILL_BROWSER_IDLE_S": "3600"}
        with gateway([address], more, log) as first:
            GatewayBrowser(first.port, "blank").call("get_page_info")
            first.navigate(f"http://{address}/")
            time.sleep(minutes * 60)
            # They are all there still.
            for session in ("blank", "evaluation"):
                GatewayBrowser(first.port, session).call("get_current_url")
            log.seek(0)
            lines = [line for line in log if "a browser's connection" in line]
    asked = [re.search(r"host=\"?([^\" ]+)\"? port=(\d+)", line) for line in lines]
    hosts = [f"{it[1]}:{it[2]}" if it else line.strip() for it, line in zip(asked, lines)]
    of_page = [it for it in hosts if it == address]
    others = [it for it in hosts if it != address]
    print(f"{minutes:g} minutes, three browsers: {len(of_page)} connections for the page, {len(others)} others {others}")
    return int(bool(others) or not 0 < len(of_page) <= OF_PAGE)


if __name__ == "__main__":
    sys.exit(main())
