"""Plays MiniWoB++ through the browser tools, with policies that see tool answers only.

    miniwob.py            every task that has a policy, SEEDS (default 5) episodes each
    miniwob.py TASK...    these tasks

The tasks are those of the Python package `miniwob` (MINIWOB: another folder with its html). OPENSKILL_BIN is the binary; DIRECT=1
drives the page script over CDP instead of a gateway. A task counts if at least 95 % of its episodes end with the raw reward 1;
AT_LEAST (default 105) tasks are asked for.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
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

# Tasks that are not solved, and why.
EXACT = "its reward is 1 at the exact point alone, which is not on a whole pixel; nearer than 3 pixels it is 0.85 to 0.99"
PICTURE = "what is asked for is in a picture, which the answers in text do not describe"
TWICE = "in some episodes two mails are of the sender that is named, and one of them is meant"
LEFT_OUT = {
    "bisect-angle": EXACT, "circle-center": EXACT, "find-midpoint": EXACT, "right-angle": EXACT,
    "chase-circle": "rewards each moment in which the pointer is inside a circle that moves; a call takes longer than it stays",
    "click-checkboxes-soft": "asks for words of like meaning, which a policy without a dictionary does not know",
    "click-menu-2": f"in some episodes {PICTURE}",
    "click-pie": "in some episodes the slice that is asked for is selected from the start, and pressing it reports nothing",
    "click-pie-nodelay": "as click-pie",
    "count-sides": PICTURE, "number-checkboxes": PICTURE, "use-colorwheel-2": PICTURE, "visual-addition": PICTURE,
    "daily-calendar": "other events may lie on the hours, and the answers do not say where",
    "drag-cube": "which side of the cube faces the reader is only seen in a picture",
    "draw-circle": "asks for a curve in one stroke; a drag goes straight",
    "email-inbox-forward": TWICE, "email-inbox-noscroll": TWICE,
    "hover-shape": "ends without a reward: its only report is commented out in its source",
    "moving-items": "counts circles hit in a time; a call takes longer than they need to pass",
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
    # By the distribution: the module of this name is this file.
    return Path(importlib.metadata.distribution("miniwob").locate_file("miniwob/html"))


def main() -> int:
    folder = html_folder()
    every = sorted(path.stem for path in (folder / "miniwob").glob("*.html"))
    if not every:
        raise SystemExit(f"there are no tasks in {folder}")
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
        if task not in solved:
            print(f"not solved: {task}: {LEFT_OUT.get(task, 'see above')}")
    return int(len(solved) < int(os.environ.get("AT_LEAST", "105")))


if __name__ == "__main__":
    sys.exit(main())
