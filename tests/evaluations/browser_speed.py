"""Compares reading a page with Playwright's `aria_snapshot` and browser-use's state, on one Chromium, in one run, and clicks with
Playwright's.

    browser_speed.py      pages of 100, 1,000 and 5,000 elements (SIZES); the median of ROUNDS (default 7); CLICKS (default 30)

It needs `playwright` and `browser-use` (see requirements-browser.txt), and for clicks OPENSKILL_BIN. It prints a table, and fails if
a bound is missed: the tree is no slower than `aria_snapshot`, reading is 10 times as fast as browser-use at 1,000 elements, 30 times
at 5,000, a click, from the number to the release of the button, is no slower than Playwright's, and a new session has its first page
five times sooner than Playwright's launch. browser-use has DEADLINE_S seconds (default 60) for an answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from local_site import serve

os.environ.setdefault("ANONYMIZED_TELEMETRY", "false")
os.environ.setdefault("BROWSER_USE_LOGGING_LEVEL", "critical")

SIZES = tuple(map(int, os.environ.get("SIZES", "100 1000 5000").split()))
# How often a first page is opened, and how long a spare browser has before.
FIRST_PAGES = 5
SETTLES_S = 2
FASTER_THAN_BROWSER_USE = {1000: 10, 5000: 30}
DEADLINE_S = float(os.environ.get("DEADLINE_S", "60"))
CLICKS = int(os.environ.get("CLICKS", "30"))
OF_CLICKS = 1000


def page(count: int) -> str:
    """A page of a shop: rows with a link, a button, a field and a check box each, between texts."""
    rows = []
    for i in range(count // 4):
        rows.append(f'<li><h3>Thing {i}</h3><p>It costs <b>{i % 90 + 9}</b> and comes in {i % 7 + 1} days.</p><a href="/thing/{i}">More on {i}</a> '
                    f'<button onclick="1">Buy {i}</button> <label>Count <input name="count{i}" value="{i % 5}"></label> '
                    f'<label><input type="checkbox"> gift {i}</label></li>')
    return f"<!DOCTYPE html><title>Shop</title><main><h1>Shop</h1><ul>{''.join(rows)}</ul></main>"


class Chromium:
    """One browser that all three talk to."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            ["/usr/bin/chromium", "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.profile.name}", "--window-size=1280,900",
             *root, "about:blank"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        port = Path(self.profile.name, "DevToolsActivePort")
        for _ in range(300):
            if port.exists() and port.read_text().strip():
                break
            time.sleep(0.1)
        self.url = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        urllib.request.urlopen(f"{self.url}/json/version", timeout=10).read()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.profile.cleanup()


def median_ms(run, rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[1:])


def ours_and_playwright(chromium: Chromium, sizes, rounds: int) -> dict[int, dict[str, float]]:
    from playwright.sync_api import sync_playwright

    from browser_direct import PageScript

    out = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(chromium.url)
        context = browser.contexts[0]
        tab = context.new_page()
        for size in sizes:
            tab.set_content(page(size))
            script = PageScript(context.new_cdp_session(tab))
            budget = {"elements": 10**6, "lines": 10**6, "ms": 10**6, "nodes": 10**7}

            def tree():
                script.tell_listeners()
                return script.raw("lines", budget=budget)

            def index():
                script.tell_listeners()
                return script.raw("index", budget=budget)

            listed = len(json.loads(index())["value"]["elements"])
            if listed != size:
                raise SystemExit(f"{listed} of {size} elements are listed")
            body = tab.locator("body")
            out[size] = {"tree": median_ms(tree, rounds), "index": median_ms(index, rounds),
                         "aria_snapshot": median_ms(lambda body=body: body.aria_snapshot(), rounds)}
        tab.close()
    return out


def launch(playwright):
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=root)


def clicks(address: str) -> dict[str, float]:
    """The median times of a click, in milliseconds: Playwright's, the tools' from number to release, and a call of a gateway, which
    compares the page before and after. On a fresh page each."""
    from playwright.sync_api import sync_playwright

    from browser_direct import DirectBrowser
    from browser_gateway import gateway

    class Presses(DirectBrowser):
        def _settle(self):
            pass

    def median(click) -> float:
        times = []
        for number in range(CLICKS + 1):
            started = time.perf_counter()
            click(number)
            times.append((time.perf_counter() - started) * 1000)
        return statistics.median(times[1:])

    def numbers(lines: list[str]) -> dict[str, int]:
        return {line.split('"')[1]: int(line.split("[")[1].split("]")[0]) for line in lines if "] button" in line}

    url, out = f"http://{address}/{OF_CLICKS}", {}
    with sync_playwright() as playwright:
        browser = launch(playwright)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(url)
        out["playwright"] = median(lambda number: tab.click(f"text='Buy {number}'"))
        ours = Presses(browser.new_page(viewport={"width": 1280, "height": 800}))
        ours.navigate(url)
        of = numbers(ours.tree())
        out["press"] = median(lambda number: ours.click(of[f"Buy {number}"]))
        browser.close()
    with gateway([address]) as session:
        session.navigate(url)
        of = numbers(session.call("get_ax_tree", number_of_elements=5000)["lines"])
        out["call"] = median(lambda number: session.click(of[f"Buy {number}"]))
    return out


def first_pages(address: str) -> dict[str, float]:
    """The median times to a first page, in milliseconds: Playwright's launch with it, and a new session's, when a spare browser is
    there."""
    from playwright.sync_api import sync_playwright

    from browser_gateway import GatewayBrowser, gateway

    def browsers() -> int:
        lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK))
        return sum(b"chromium" in line and b"--user-data-dir" in line and b"--type=" not in line for line in lines)

    url, times = f"http://{address}/100", {"playwright": [], "spare": []}
    with sync_playwright() as playwright:
        for _ in range(FIRST_PAGES):
            started = time.perf_counter()
            browser = launch(playwright)
            browser.new_page().goto(url)
            times["playwright"].append((time.perf_counter() - started) * 1000)
            browser.close()
    before = browsers()
    with gateway([address]) as first:
        first.navigate(url)
        for number in range(FIRST_PAGES):
            while browsers() < before + number + 2:
                time.sleep(0.1)
            # It is started; what it does by itself at first would slow the page.
            time.sleep(SETTLES_S)
            session = GatewayBrowser(first.port, f"session-{number}")
            started = time.perf_counter()
            session.navigate(url)
            times["spare"].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(all_of) for name, all_of in times.items()}


async def browser_use(chromium: Chromium, address: str, sizes, rounds: int) -> dict[int, float]:
    from browser_use import BrowserSession

    out = {}
    session = BrowserSession(cdp_url=chromium.url)
    await session.start()
    for size in sizes:
        await session.navigate_to(f"http://{address}/{size}")
        times = []
        try:
            for _ in range(rounds):
                started = time.perf_counter()
                state = await asyncio.wait_for(session.get_browser_state_summary(include_screenshot=False), DEADLINE_S)
                times.append((time.perf_counter() - started) * 1000)
        except TimeoutError:
            # At least so long: what is compared with it is a lower bound.
            out[size] = DEADLINE_S * 1000
            print(f"browser-use: no answer within {DEADLINE_S:g} s at {size} elements", flush=True)
            continue
        out[size] = statistics.median(times)
        print(f"browser-use lists {len(state.dom_state.selector_map)} of {size} elements, in {out[size]:.0f} ms", flush=True)
    return out


def shop(path: str) -> bytes:
    size = path.strip("/")
    return page(int(size)).encode() if size.isdigit() else b""


def main():
    rounds = int(os.environ.get("ROUNDS", "7"))
    address = serve(shop)
    click = clicks(address)
    first = first_pages(address)
    with Chromium() as chromium:
        table = ours_and_playwright(chromium, SIZES, rounds)
        loop = asyncio.new_event_loop()
        for size, took in loop.run_until_complete(browser_use(chromium, address, SIZES, min(rounds, 3))).items():
            table[size]["browser-use"] = took
    missed = ["a click is slower than Playwright's"] if click["press"] > click["playwright"] else []
    print(f"a click among {OF_CLICKS} elements (ms, median of {CLICKS}): {click['press']:.1f}; Playwright's {click['playwright']:.1f}; "
          f"a call of the gateway, with what changed {click['call']:.1f}")
    print(f"a first page (ms, median of {FIRST_PAGES}): {first['spare']:.0f} with a spare; "
          f"Playwright's launch {first['playwright']:.0f}")
    if first["spare"] * 5 > first["playwright"]:
        missed.append("a first page with a spare is less than 5 times as soon as Playwright's launch")
    print(f"{'elements':>8} {'tree':>9} {'index':>9} {'aria_snapshot':>14} {'browser-use':>12}   (ms, median)")
    for size, row in table.items():
        print(f"{size:>8} {row['tree']:>9.1f} {row['index']:>9.1f} {row['aria_snapshot']:>14.1f} {row['browser-use']:>12.1f}")
        if row["tree"] > row["aria_snapshot"]:
            missed.append(f"the tree of {size} elements is slower than aria_snapshot")
        times = row["browser-use"] / row["index"]
        if times < FASTER_THAN_BROWSER_USE.get(size, 0):
            missed.append(f"{size} elements: {times:.1f} times as fast as browser-use")
    print("\n".join(missed), flush=True)
    os._exit(int(bool(missed)))  # without waiting for the tasks of browser-use, which do not end


if __name__ == "__main__":
    main()
