"""Uses the tools on a page of NODES (default 1,000,000) nodes: each answers, or says in a typed error that it can't, within
MOST_S seconds, and the browser of a neighbour goes on.

    browser_large.py
"""

from __future__ import annotations

import os
import sys
import threading
import time

from browser_direct import ToolError
from browser_gateway import GatewayBrowser, gateway
from local_site import serve

NODES = int(os.environ.get("NODES", "1000000"))
MOST_S = 30.0
# A quarter of the nodes are elements of a list with a text each, and some can be pressed.
PAGE = """<!doctype html><title>Large</title><button onclick="document.title='pressed'">First</button><ul id=all></ul><script>
let made = 3;
const more = () => {
  const part = document.createDocumentFragment();
  for (let i = 0; i < 25000 && made < %d; i += 1, made += 4) {
    const item = document.createElement('li');
    item.append('Thing ' + made + ' ');
    const inner = document.createElement(i %% 50 ? 'b' : 'a');
    if (!(i %% 50)) inner.href = '/' + made;
    inner.append('more');
    item.append(inner);
    part.append(item);
  }
  all.append(part);
  if (made < %d) setTimeout(more, 0); else document.title = 'complete';
};
more();
</script>""" % (NODES, NODES)


def main() -> int:
    host = serve(lambda path: PAGE.encode() if path == "/large" else b"<title>Small</title><p>fine")
    address, missed = f"http://{host}", []
    with gateway([host]) as browser:
        neighbour = GatewayBrowser(browser.port, "neighbour")
        neighbour.navigate(f"{address}/small")
        done, asked, failed = threading.Event(), [0], []

        def ask_on():
            while not done.is_set():
                asked[0] += 1
                try:
                    neighbour.call("get_content")
                except ToolError as error:
                    failed.append(str(error))

        beside = threading.Thread(target=ask_on)
        beside.start()
        calls = [
            ("navigate", {"url": f"{address}/large"}), ("wait", {"seconds": 20}), ("get_page_info", {}), ("click_element", {"index": 1}),
            ("get_ax_tree", {"number_of_elements": 1000}), ("get_content", {}), ("extract_content", {"goal": "Thing 4003"}),
            ("scroll_to_text", {"text": "Thing 900003"}), ("screenshot", {}), ("scroll_down", {}), ("navigate", {"url": f"{address}/small"}),
        ]
        for tool, given in calls:
            started = time.monotonic()
            try:
                outcome = f"answered, {len(str(browser.call(tool, **given)))} characters"
            except ToolError as error:
                outcome = str(error)[:120]
            took = time.monotonic() - started
            print(f"{tool:>16} {took:6.2f} s  {outcome}", flush=True)
            if took > MOST_S + given.get("seconds", 0):
                missed.append(f"{tool} took {took:.1f} s")
        done.set()
        beside.join()
    print(f"the neighbour: {asked[0]} calls, {len(failed)} failed {failed[:3]}")
    if len(failed) > 0.01 * asked[0]:
        missed.append("the neighbour failed")
    print("\n".join(missed))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
