"""Kills workers with kill -9 while their browsers load pages that never end and the calls were given up, and looks two seconds
later for what is left of the browsers.

    browser_ends.py       SESSIONS (default 100), TOGETHER (default 3) at a time

It counts processes, namespaces, mounts and temporary folders, and sockets, and fails if one is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from browser_gateway import gateway

GONE_S = 2.0
PATIENCE_S = 60.0


class Site:
    """Begins to answer, and never ends."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.came = 0
        self.open: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            self.open.append(connection)
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket):
        with contextlib.suppress(OSError):
            if connection.recv(65536):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>It goes on")
                self.came += 1

    def closed(self) -> bool:
        """Whether the other side has closed all connections."""
        for connection in self.open:
            connection.setblocking(False)
            try:
                while connection.recv(65536):
                    pass
            except BlockingIOError:
                return False
            except OSError:
                pass
        return True


def children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    found = children(pid)
    for child in list(found):
        found += descendants(child)
    return found


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def namespaces(pids) -> set[str]:
    found = set()
    for pid in pids:
        for kind in ("net", "mnt", "pid", "user", "ipc", "uts", "cgroup"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


def everybody() -> list[int]:
    return [int(it) for it in os.listdir("/proc") if it.isdigit()]


def left_on_disk(folder: str) -> set[str]:
    """What is in the folder for temporary files, and mounted there."""
    mounts = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    return {it for it in mounts if it.startswith(folder)} | {str(it) for it in Path(folder).iterdir()}


def sockets_of(pids) -> set[str]:
    """The sockets that processes hold, by inode."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
    return found


def all_sockets() -> set[str]:
    """All sockets of this network that the kernel knows, by inode."""
    found = set()
    for table, column in (("unix", 6), ("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9)):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            found |= {fields[column] for fields in map(str.split, lines) if len(fields) > column}
    return found


def until(what: str, is_true):
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.02)


def load_and_give_up(port: int, url: str, session: str) -> socket.socket:
    """Begins a call whose client goes away when it is closed."""
    body = json.dumps({"input": {"url": url}, "session_id": session, "timeout_ms": 60000}).encode()
    call = socket.create_connection(("127.0.0.1", port))
    head = "POST /skills/browser_navigate:invoke HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json"
    call.sendall(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return call


def worker_of(up: int) -> int | None:
    workers = [it for it in children(up) if " worker" in command(it)]
    return workers[0] if workers else None


def round_of(count: int, number: int) -> tuple[int, list[str]]:
    """Loads `count` pages, gives the calls up, kills the worker. How many processes there were, and what is left."""
    site = Site()
    more = {"OPENSKILL_BROWSER_SESSIONS": str(count), "OPENSKILL_BROWSER_SPARES": "0", "OPENSKILL_LOG": "error"}
    with tempfile.TemporaryDirectory() as temporary, gateway([f"127.0.0.1:{site.port}"], {**more, "TMPDIR": temporary}) as browser:
        # As the system's own is.
        os.chmod(temporary, 0o1777)
        up = browser.process.pid
        until("the worker runs", lambda: worker_of(up))
        worker = worker_of(up)
        disk = left_on_disk(temporary)
        url = f"http://127.0.0.1:{site.port}/"
        calls = [load_and_give_up(browser.port, url, f"s{number}-{it}") for it in range(count)]
        until(f"{count} pages load", lambda: site.came >= count)
        tree = descendants(worker)
        own = namespaces(tree) - namespaces([os.getpid(), worker])
        # The worker inherits some of its parent's.
        sockets = sockets_of([worker, *tree]) - sockets_of([up])
        for call in calls:
            call.close()
        os.kill(worker, signal.SIGKILL)
        time.sleep(GONE_S)
        left = [f"process {it}: {command(it)[:80]}" for it in tree if is_alive(it)]
        left += [f"namespace {it}" for it in own & namespaces(everybody())]
        left += [f"on disk: {it}" for it in left_on_disk(temporary) - disk]
        left += [f"socket {it}" for it in sockets & all_sockets()]
        if not site.closed():
            left.append("connections to the site")
        if not own or len(tree) < 3 * count:
            raise SystemExit(f"there were not {count} browsers: {len(tree)} processes, {len(own)} namespaces")
        return len(tree), left


def main() -> int:
    sessions, together = int(os.environ.get("SESSIONS", "100")), int(os.environ.get("TOGETHER", "3"))
    processes, left, done = 0, [], 0
    while done < sessions:
        count = min(together, sessions - done)
        seen, remains = round_of(count, done)
        processes, left, done = processes + seen, left + remains, done + count
        print(f"{done} sessions: {processes} processes, {len(left)} things left", flush=True)
    for one in left[:50]:
        print(one)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
