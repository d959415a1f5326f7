#!/usr/bin/env python3
"""Lets ten principals with `rate = 1, in_flight = 1` take from a gateway all they can, while an honest one works.

    OPENSKILL_BIN=target/release/openskill MINUTES=20 MEMORY_MB=1024 python3 tests/evaluations/abuse.py [kind ...]

Each kind of abuse is a principal with a thread; without arguments all run together. No request of the honest principal may fail, and
the memory of the gateway must be flat: over the last three quarters of the time it grows by less than 1 MB a minute. Afterwards it is
under 250 MB. As root with control groups (v1), the gateway has MEMORY_MB of memory and is killed beyond that.

Exit codes: 0 all of that holds, 1 some of it does not.
"""

import http.client
import itertools
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / os.environ.get("OPENSKILL_BIN", "target/release/openskill")
SECONDS = 60 * float(os.environ.get("MINUTES", "20"))
MEMORY_MB = int(os.environ.get("MEMORY_MB", "1024"))
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
SLOPE_MB_A_MINUTE, AFTERWARDS_MB = 1.0, 250
JSON = {"content-type": "application/json", "accept": "application/json"}
MCP = {"accept": "application/json, text/event-stream"}
BATCHES = {**MCP, "mcp-protocol-version": "2025-03-26"}

BLOB = """from openskill_sdk import artifact, run

def handle(input):
    artifact("blob.bin", bytes(range(250)) * (input["bytes"] // 250))
    return {"text": "x" * input["text"]}

run(handle)
"""
BLOB_MANIFEST = {"id": "blob", "type": "cli", "runtime": "python", "entry": "blob.py", "isolation": "process", "timeout_ms": 30000}
LONG_PROMPT = {
    "id": "fill",
    "type": "inproc",
    "entry": "echo",
    "prompts": [{
        "name": "fill",
        "description": "Fills many places",
        "arguments": [{"name": "text", "required": True}],
        "messages": [{"role": "user", "text": "{text} " * 40}],
    }],
}


class Gateway:
    """A gateway in a control group, two workers, and the keys of all principals."""

    def __init__(self, folder, principals):
        self.folder = pathlib.Path(folder)
        skills = self.folder / "skills"
        skills.mkdir()
        (self.folder / "data").mkdir()
        (skills / "blob.py").write_text(BLOB)
        for manifest in (BLOB_MANIFEST, LONG_PROMPT, {"id": "slow", "type": "inproc", "entry": "wait"}, {"id": "say", "type": "inproc", "entry": "echo"}):
            (skills / f"{manifest['id']}.json").write_text(json.dumps(manifest))
        self.keys = {name: self.key(name, *more) for name, more in principals.items()}
        self.port = free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "OPENSKILL_ALLOWED_ROOT": str(self.folder / "data"),
            "OPENSKILL_CLI_DIR": f"{skills}:{ROOT / 'worker/skills'}",
            "OPENSKILL_TRACE_DIR": "memory",
            "OPENSKILL_KEYS": str(self.folder / "keys.toml"),
        }
        self.group = self.make_group()
        self.workers = [self.start("worker", "--id", f"w{n}", "--listen", f"unix:{self.folder}/w{n}.sock") for n in range(2)]
        self.process = self.start("gateway", "--listen", f"127.0.0.1:{self.port}", "--workers", f"unix:{self.folder}/*.sock", group=self.group)
        self.peak_mb = 0.0

    def key(self, name, *more):
        create = [BINARY, "keys", "create", "--file", self.folder / "keys.toml", "--principal", name, "--skills", "*", *more]
        return subprocess.run(create, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()

    def make_group(self):
        group = GROUPS / f"openskill-abuse-{os.getpid()}"
        try:
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(MEMORY_MB * 1024 * 1024))
            return group
        except OSError as error:
            print(f"no control group, the memory is measured only: {error}", file=sys.stderr)
            return None

    def start(self, *command, group=None):
        log = open(self.folder / "log", "a")
        enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None
        return subprocess.Popen([BINARY, *command], env=self.environment, cwd=self.folder, stdout=log, stderr=log, preexec_fn=enter)

    def __enter__(self):
        for _ in range(600):
            try:
                if ask(self, "honest", "GET", "/skills/blob")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        self.__exit__()
        raise SystemExit("the gateway did not start:\n" + (self.folder / "log").read_text())

    def __exit__(self, *_):
        for process in [self.process, *self.workers]:
            process.terminate()
        for process in [self.process, *self.workers]:
            process.wait(60)
        if self.group:
            self.group.rmdir()

    def memory_mb(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            raise SystemExit("the gateway ended") from None
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        if not found or self.process.poll() is not None:
            raise SystemExit(f"the gateway ended with {self.process.poll()}")
        self.peak_mb = max(self.peak_mb, int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024)
        return int(found[1]) / 1024


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(gateway, principal, method, path, body=None, headers=None, timeout=30):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=timeout)
    try:
        send = {"authorization": f"Bearer {gateway.keys[principal]}", **JSON, **(headers or {})}
        connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body), send)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def unread(gateway, principal, requests, method, path, body=None, headers=None):
    """So many requests whose responses are not read, each on a connection of its own."""
    text = "" if body is None else json.dumps(body)
    lines = {"host": "x", "authorization": f"Bearer {gateway.keys[principal]}", **JSON, **(headers or {}), "content-length": str(len(text))}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    opened = []
    for _ in range(requests):
        try:
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=5)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall((head + text).encode())
            opened.append(connection)
        except OSError:
            break
    return opened


def rpc(method, params, number=1):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def blob(gateway, principal, size, text=0):
    """The handle of an artifact, or none if the call was refused."""
    status, body = ask(gateway, principal, "POST", "/skills/blob:invoke", {"input": {"bytes": size, "text": text}})
    found = json.loads(body).get("artifacts") if status == 200 else None
    return found[0].get("handle") if found else None


def batch_of_artifacts(gateway, principal):
    if handle := blob(gateway, principal, 8_000_000):
        for _ in range(5):
            batch = [rpc("resources/read", {"uri": f"openskill://artifacts/{handle}"}, n) for n in range(64)]
            ask(gateway, principal, "POST", "/mcp", batch, BATCHES)


def batch_of_results(gateway, principal):
    batch = [rpc("tools/call", {"name": "blob", "arguments": {"bytes": 0, "text": 9_900_000}}, n) for n in range(64)]
    ask(gateway, principal, "POST", "/mcp", batch, BATCHES, timeout=120)


def unread_artifacts(gateway, principal):
    if handle := blob(gateway, principal, 8_000_000):
        read = rpc("resources/read", {"uri": f"openskill://artifacts/{handle}"})
        opened = unread(gateway, principal, 60, "POST", "/mcp", read, BATCHES)
        opened += unread(gateway, principal, 60, "GET", f"/artifacts/{handle}")
        time.sleep(10)
        for connection in opened:
            connection.close()


def messages(gateway, principal):
    """Messages of 255 KiB, each in a conversation of its own."""
    ask(gateway, principal, "POST", "/agent/chat", {"message": "x" * 255 * 1024})


def one_conversation(gateway, principal, state={}):
    conversation = state.setdefault(principal, "")
    _, body = ask(gateway, principal, "POST", "/agent/chat", {"message": "y" * 255 * 1024, "conversation_id": conversation})
    try:
        state[principal] = json.loads(body).get("conversation_id", "")
    except ValueError:
        state[principal] = ""


def followers(gateway, principal):
    _, body = ask(gateway, principal, "POST", "/agent/chat", {"message": "echo: hello"})
    conversation = json.loads(body).get("conversation_id", "none")
    opened = unread(gateway, principal, 120, "GET", f"/agent/conversations/{conversation}/events?follow=true")
    opened += unread(gateway, principal, 100, "GET", "/traces?follow=true", headers={"accept": "text/event-stream"})
    time.sleep(5)
    for connection in opened:
        connection.close()


def sessions(gateway, principal, numbers=itertools.count()):
    """Calls with an idempotency key, each in a session of its own."""
    for number in itertools.islice(numbers, 200):
        headers = {"idempotency-key": f"{principal}-{number}"}
        ask(gateway, principal, "POST", "/skills/slow:invoke", {"input": {"ms": 1}, "session_id": f"s{number}"}, headers)


def prompts(gateway, principal):
    ask(gateway, principal, "POST", "/mcp", rpc("prompts/get", {"name": "fill", "arguments": {"text": "z" * 3_900_000}}), BATCHES)


def slow_bodies(gateway, principal):
    head = f"POST /skills/say:invoke HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {gateway.keys[principal]}\r\ncontent-length: 4000000\r\n\r\n"
    opened = []
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=5)
            connection.settimeout(2)
            connection.sendall(head.encode() + b" " * 3_900_000)
            opened.append(connection)
        except OSError:
            break
    time.sleep(5)
    for connection in opened:
        connection.close()


def subscriptions(gateway, principal):
    opened = []
    for _ in range(60):
        status, _ = ask(gateway, principal, "POST", "/mcp", rpc("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "abuse", "version": "1"}}), MCP)
        opened += unread(gateway, principal, 1, "GET", "/skills:watch", headers={"accept": "text/event-stream"})
        opened += unread(gateway, principal, 1, "GET", "/tools?dialect=openai")
    opened += unread(gateway, principal, 60, "GET", "/openapi.json")
    time.sleep(5)
    for connection in opened:
        connection.close()


KINDS = [batch_of_artifacts, batch_of_results, unread_artifacts, messages, one_conversation, followers, sessions, prompts, slow_bodies, subscriptions]


def abuse(gateway, kind, until, counts):
    while time.monotonic() < until:
        counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        try:
            kind(gateway, kind.__name__)
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.1)


def honest(gateway, until, took, failed):
    """What somebody does who uses all faces of a gateway, five times a second."""
    _, body = ask(gateway, "honest", "POST", "/agent/chat", {"message": "echo: hello"})
    conversation = json.loads(body)["conversation_id"]
    handle = blob(gateway, "honest", 500_000)
    initialize = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "honest", "version": "1"}}
    steps = [
        ("POST", "/skills/say:invoke", {"input": {"text": "hello"}}, {}),
        ("POST", "/skills/say:invoke", {"input": {"text": "hello"}, "session_id": "mine"}, "key"),
        ("POST", "/mcp", rpc("initialize", initialize), MCP),
        ("GET", "/traces?limit=5", None, {}),
        ("GET", f"/agent/conversations/{conversation}/events", None, {}),
        ("GET", "/skills", None, {}),
        ("POST", "/agent/chat", {"message": "echo: hello"}, {}),
        ("GET", f"/artifacts/{handle}", None, {}),
    ]
    for number in itertools.count():
        if time.monotonic() > until:
            return
        method, path, body, headers = steps[number % len(steps)]
        headers = {"idempotency-key": f"honest-{number}"} if headers == "key" else headers
        if path.startswith("/artifacts/") and number % 800 == 7:
            handle = blob(gateway, "honest", 500_000)
            steps[7] = ("GET", f"/artifacts/{handle}", None, {})
        begun = time.monotonic()
        try:
            status, answer = ask(gateway, "honest", method, path, body, headers)
            if status != 200:
                failed.append((method, path, status, answer[:300].decode(errors="replace")))
        except (OSError, http.client.HTTPException) as error:
            failed.append((method, path, type(error).__name__, str(error)))
        took.append(time.monotonic() - begun)
        time.sleep(max(0.0, 0.2 - took[-1]))


def main():
    chosen = [kind for kind in KINDS if not sys.argv[1:] or kind.__name__ in sys.argv[1:]]
    limited = ("--rate", "1", "--in-flight", "1")
    principals = {"honest": ("--admin",), **{kind.__name__: limited for kind in chosen}}
    with tempfile.TemporaryDirectory() as folder, Gateway(folder, principals) as gateway:
        quiet, failed, counts = [], [], {}
        honest(gateway, time.monotonic() + 5, quiet, failed)
        begun = time.monotonic()
        until, took, samples = begun + SECONDS, [], []
        threads = [threading.Thread(target=abuse, args=(gateway, kind, until, counts), daemon=True) for kind in chosen]
        threads.append(threading.Thread(target=honest, args=(gateway, until, took, failed), daemon=True))
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            time.sleep(1)
            samples.append(((time.monotonic() - begun) / 60, gateway.memory_mb()))
            if len(samples) % 30 == 0:
                print(f"{samples[-1][0]:.1f} min: {samples[-1][1]:.0f} MB, {len(took)} honest requests, {len(failed)} failed", flush=True)
        for thread in threads:
            thread.join(150)
        late = [it for it in samples if it[0] > SECONDS / 240] or samples
        slope = statistics.linear_regression(*zip(*late)).slope if len(late) > 2 else 0.0
        afterwards = gateway.memory_mb()
        for _ in range(60):
            if afterwards < AFTERWARDS_MB:
                break
            time.sleep(1)
            afterwards = gateway.memory_mb()
    p99 = lambda times: 1000 * sorted(times)[int(0.99 * (len(times) - 1))]
    for line in failed[:20]:
        print("failed:", *line)
    print(f"abuse: {counts}")
    print(f"honest: {len(took)} requests, {len(failed)} failed, p99 {p99(took):.0f} ms (quiet {p99(quiet):.0f} ms)")
    print(f"memory: peak {gateway.peak_mb:.0f} MB, {slope:+.2f} MB a minute, {afterwards:.0f} MB afterwards")
    return 0 if not failed and slope < SLOPE_MB_A_MINUTE and afterwards < AFTERWARDS_MB else 1


if __name__ == "__main__":
    sys.exit(main())
