"""Plays MiniWoB++ through the browser tools, with policies that see tool answers only.

    miniwob.py            every task that has a policy, SEEDS (default 5) episodes each
    miniwob.py TASK...    these tasks

The tasks are those of the Python package `miniwob` (MINIWOB: another folder with its html). OPENSKILL_BIN is the binary; DIRECT=1
drives the page script over CDP instead of a gateway. A task counts if at least 95 % of its episodes end with the raw reward 1;
AT_LEAST (default 105) tasks are asked for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import threading
import time
import urllib.parse
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from miniwob_policies import POLICIES
from miniwob_policies.base import Page

EPISODE_SECONDS = 60

# Starts an episode by its seed, and tells the server how it ended. Nothing else of a task is changed.
HARNESS = """<script>
addEventListener('load', () => {
  core.EPISODE_MAX_TIME = %d;
  const end = core.endEpisode;
  core.endEpisode = function (reward, timed, reason) {
    const open = core.EP_TIMER !== null;
    end.apply(this, arguments);
    if (open) navigator.sendBeacon('/ended?episode=%s', String(WOB_RAW_REWARD_GLOBAL));
  };
  Math.seedrandom('%s');
  core.startEpisodeReal();
});
</script>"""

# Tasks without a policy, and why.
LEFT_OUT = {
    "chase-circle": "rewards every moment the pointer is inside a moving circle; no tool moves the pointer continuously",
    "moving-items": "counts moving circles that were hit in a time; a press takes longer than they need to pass",
}


class Tasks:
    """Serves the tasks, and keeps the rewards by episode."""

    def __init__(self, folder: Path):
        self.rewards: dict[str, float] = {}
        self.came = threading.Condition()
        tasks = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *rest):
                super().__init__(*rest, directory=str(folder))

            def log_message(self, *_):
                pass

            def do_GET(self):
                path, _, query = self.path.partition("?")
                if not (query and path.startswith("/miniwob/")):
                    return super().do_GET()
                asked = urllib.parse.parse_qs(query)
                page = (folder / path.lstrip("/")).read_text(errors="replace")
                body = (page + HARNESS % (EPISODE_SECONDS * 1000, asked["episode"][0], asked["seed"][0])).encode()
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                reward = float(self.rfile.read(int(self.headers["content-length"])))
                episode = urllib.parse.parse_qs(self.path.partition("?")[2])["episode"][0]
                with tasks.came:
                    tasks.rewards[episode] = reward
                    tasks.came.notify_all()
                self.send_response(204)
                self.end_headers()

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, task: str, seed: int, episode: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/miniwob/{task}.html?seed={seed}&episode={episode}"

    def reward(self, episode: str, seconds: float) -> float | None:
        with self.came:
            self.came.wait_for(lambda: episode in self.rewards, seconds)
            return self.rewards.get(episode)


def play(browser, tasks: Tasks, task: str, seed: int) -> tuple[float | None, str]:
    """One episode: its raw reward, and what went wrong."""
    episode = f"{task}-{seed}-{time.monotonic_ns()}"
    browser.navigate(tasks.url(task, seed, episode))
    try:
        POLICIES[task](Page(browser))
        wrong = ""
    except Exception as error:  # a policy that is wrong loses its episode, not the run
        if os.environ.get("TRACE"):
            raise
        wrong = f"{type(error).__name__}: {error}"[:300]
    return tasks.reward(episode, 1.0), wrong


@contextlib.contextmanager
def browser_of(allowed: list[str]):
    if os.environ.get("DIRECT"):
        from playwright.sync_api import sync_playwright

        from browser_direct import DirectBrowser

        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            yield DirectBrowser(chromium.new_page())
            chromium.close()
    else:
        from browser_gateway import gateway

        with gateway(allowed) as browser:
            yield browser


def html_folder() -> Path:
    if given := os.environ.get("MINIWOB"):
        return Path(given)
    return Path(importlib.util.find_spec("miniwob").origin).parent / "html"


def main() -> int:
    folder = html_folder()
    every = sorted(path.stem for path in (folder / "miniwob").glob("*.html"))
    wanted = sys.argv[1:] or [name for name in every if name in POLICIES]
    seeds = range(1, int(os.environ.get("SEEDS", "5")) + 1)
    tasks = Tasks(folder)
    solved, failed = [], {}
    started = time.monotonic()
    with browser_of([f"127.0.0.1:{tasks.http.server_port}"]) as browser:
        for task in wanted:
            outcomes = [play(browser, tasks, task, seed) for seed in seeds]
            won = sum(reward == 1 for reward, _ in outcomes)
            if won >= 0.95 * len(outcomes):
                solved.append(task)
            else:
                failed[task] = outcomes
                losses = [f"{seed}: {reward} {wrong}" for seed, (reward, wrong) in zip(seeds, outcomes) if reward != 1]
                print(f"{task}: {won}/{len(outcomes)}  " + " | ".join(losses), flush=True)
    print(json.dumps({"tasks": len(every), "played": len(wanted), "solved": len(solved), "failed": sorted(failed),
                      "seconds": round(time.monotonic() - started)}))
    if sys.argv[1:]:
        return int(bool(failed))
    for task in every:
        if task not in POLICIES:
            print(f"no policy: {task}: {LEFT_OUT.get(task, 'not written')}")
    return int(len(solved) < int(os.environ.get("AT_LEAST", "105")))


if __name__ == "__main__":
    sys.exit(main())
