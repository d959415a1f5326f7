"""Counts how often `quick_research` quotes the answer of a question, on a site with a page for each paragraph of SQuAD.

    research.py DATA       the folder with dev-v1.1.json of SQuAD 1.1, or the file itself

OPENSKILL_BIN is the binary. No model takes part. It prints a table, and fails if a bound is missed, a quote is not in its page
word for word, or a page is cited that was not fetched.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import html
import http.client
import http.server
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Iterator

QUESTIONS, SEED = int(os.environ.get("LIMIT", "500")), 22
# The least part of answers in the first quote, of answers in the first three, and of right pages among the first three.
BOUNDS = {"first": 0.72, "three": 0.86, "pages": 0.93}


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    texts: dict[str, str] = {}
    fetched: set[str] = set()

    def do_GET(self) -> None:
        text = self.texts.get(self.path)
        self.fetched.add(self.path)
        body = (text or "not found").encode()
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def read(data: Path) -> tuple[dict[str, str], list[tuple[str, str, list[str]]]]:
    """The paragraphs by path, and the questions with the path of the right page and the answers."""
    path = data if data.is_file() else next(data.rglob("dev-v1.1.json"))
    paragraphs, questions = {}, []
    for article in json.loads(path.read_text())["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            place = f"/{article['title'].replace('%', '').replace('/', '_')}/{number}"
            paragraphs[place] = article["title"].replace("_", " "), paragraph["context"]
            for asked in paragraph["qas"]:
                questions.append((asked["question"], place, [it["text"] for it in asked["answers"]]))
    return paragraphs, questions


def page(title: str, text: str) -> str:
    title, text = html.escape(title), html.escape(text)
    return (
        f"<!doctype html><html><head><title>{title}</title></head><body><nav><a href='/'>Home</a></nav>"
        f"<main><h1>{title}</h1><p>{text}</p></main><footer>A footer</footer></body></html>"
    )


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


@contextlib.contextmanager
def gateway(site: str) -> Iterator[int]:
    """`openskill up` with one worker and the shipped research tools."""
    port = free_port()
    with tempfile.TemporaryDirectory() as own:
        (Path(own) / "data").mkdir()
        skills = Path(__file__).resolve().parents[2] / "worker/skills"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": own,
            "OPENSKILL_LISTEN": f"127.0.0.1:{port}",
            "OPENSKILL_CLI_DIR": str(skills),
            "OPENSKILL_ALLOWED_ROOT": f"{own}/data",
            "OPENSKILL_TRACE_DIR": "off",
            "OPENSKILL_LOG": "warn",
            "OPENSKILL_RESEARCH_PROVIDER": "site",
            "OPENSKILL_RESEARCH_URL": site,
            "OPENSKILL_RESEARCH_SITE_PAGES": "20000",
        }
        binary = str(Path(os.environ["OPENSKILL_BIN"]).resolve())
        process = subprocess.Popen([binary, "up", "--workers", "1"], env=env, cwd=own, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                with contextlib.suppress(OSError, ValueError, KeyError):
                    skills = call(port, "GET", "/skills")["skills"]
                    if any(it["id"] == "quick_research" and it["status"] == "available" for it in skills):
                        break
                time.sleep(0.1)
            else:
                raise SystemExit("the gateway does not offer quick_research")
            yield port
        finally:
            process.terminate()
            process.wait()


def call(port: int, method: str, path: str, body: object = None) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def research(port: int, question: str) -> dict:
    answer = call(port, "POST", "/skills/quick_research:invoke", {"input": {"question": question}, "timeout_ms": 60000})
    if not answer["success"]:
        raise SystemExit(f"{question}: {answer['error']}")
    return answer["data"]


def main() -> int:
    paragraphs, questions = read(Path(sys.argv[1]))
    questions = random.Random(SEED).sample(questions, min(QUESTIONS, len(questions)))
    Pages.texts = {place: page(title, text) for place, (title, text) in paragraphs.items()}
    links = "".join(f"<li><a href='{html.escape(place)}'>{html.escape(place)}</a>" for place in paragraphs)
    Pages.texts["/"] = f"<html><head><title>Contents</title></head><body><nav><ul>{links}</ul></nav></body></html>"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_port}/"
    counts = dict.fromkeys(BOUNDS, 0)
    not_verbatim = not_fetched = length = 0
    with gateway(site) as port:
        begun = time.monotonic()
        while any("has been read so far" in it for it in research(port, questions[0][0])["warnings"]):
            pass
        crawled = time.monotonic() - begun
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda it: research(port, it[0]), questions))
        seconds = time.monotonic() - begun
    for (question, right, expected), answer in zip(questions, answers):
        quotes = [it["quote"] for it in answer["citations"]]
        holds = [any(text in quote for text in expected) for quote in quotes]
        counts["first"] += any(holds[:1])
        counts["three"] += any(holds[:3])
        counts["pages"] += any(it["url"] == site + right[1:] for it in answer["sources"][:3])
        length += sum(map(len, quotes[:1]))
        for citation in answer["citations"]:
            place = "/" + citation["url"].removeprefix(site)
            not_fetched += place not in Pages.fetched
            text = " ".join(paragraphs.get(place, ("", ""))[1].split())
            not_verbatim += citation["quote"] not in text
    parts = {name: count / len(questions) for name, count in counts.items()}
    print(f"{len(paragraphs)} pages read in {crawled:.1f} s, {len(questions)} questions in {seconds:.1f} s\n")
    print("| | measured | bound |\n|---|---|---|")
    for name, text in (
        ("first", "answer in the first quote"),
        ("three", "answer in the first three quotes"),
        ("pages", "right page among the first three"),
    ):
        print(f"| {text} | {parts[name]:.1%} | {BOUNDS[name]:.0%} |")
    print(f"| quotes that are not in their page | {not_verbatim} | 0 |")
    print(f"| citations of pages that were not fetched | {not_fetched} | 0 |")
    print(f"\nThe first quote has {length / len(questions):.0f} characters on average.")
    is_good = all(parts[name] >= bound for name, bound in BOUNDS.items()) and not not_verbatim and not not_fetched
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
