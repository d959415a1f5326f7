#!/usr/bin/env python3
"""Lets principals with `rate = 1, in_flight = 1` take from a gateway all they can, while an honest one works.

    OPENSKILL_BIN=target/release/openskill MINUTES=20 MEMORY_MB=1024 python3 tests/evaluations/abuse.py [kind ...]
    OPENSKILL_BIN=target/release/openskill SECONDS=20 python3 tests/evaluations/abuse.py --each [kind ...]

Each kind of abuse is a principal with a thread, and fills the rows of "Kept for principals" in docs/limits.md that it names. All
kinds run together; with --each, one after the other at the same gateway, which walks the table.

No request of the honest principal may fail. Together: over the last three quarters of the time the memory of the gateway grows by
less than 1 MB a minute. Each: p99 of the honest principal is at most three times what it is while nobody else is there. Afterwards
the gateway takes less than 250 MB. As root with control groups (v1), it has MEMORY_MB of memory and is killed beyond that.

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
SECONDS = float(os.environ.get("SECONDS", 0)) or 60 * float(os.environ.get("MINUTES", "20"))
MEMORY_MB = int(os.environ.get("MEMORY_MB", "1024"))
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
SLOPE_MB_A_MINUTE, AFTERWARDS_MB, P99_RATIO = 1.0, 250, 3.0
JSON = {"content-type": "application/json", "accept": "application/json"}
MCP = {"accept": "application/json, text/event-stream"}
BATCHES = {**MCP, "mcp-protocol-version": "2025-03-26"}
LATEST = "2026-07-28"

BLOB = """from openskill_sdk import artifact, progress, run

def handle(input):
    for _ in range(input.get("says", 0)):
        progress(0.5, "s" * 60_000)
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
SIMPLE_MANIFESTS = (
    {"id": "slow", "type": "inproc", "entry": "wait"},
    {"id": "say", "type": "inproc", "entry": "echo"},
    {"id": "question", "type": "inproc", "entry": "ask"},
    {"id": "task", "type": "inproc", "entry": "echo", "task": {"after_ms": 0}},
)


class Gateway:
    """A gateway in a control group, two workers, and the keys of all principals."""

    def __init__(self, folder, principals):
        self.folder = pathlib.Path(folder)
        skills = self.folder / "skills"
        skills.mkdir()
        (self.folder / "data").mkdir()
        (skills / "blob.py").write_text(BLOB)
        for manifest in (BLOB_MANIFEST, LONG_PROMPT, *SIMPLE_MANIFESTS):
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


def ask(*request, **options):
    """The status and the body of an answer."""
    answer, body = exchange(*request, **options)
    return answer.status, body


def exchange(gateway, principal, method, path, body=None, headers=None, timeout=30):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=timeout)
    try:
        send = {"authorization": f"Bearer {gateway.keys[principal]}", **JSON, **(headers or {})}
        connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body), send)
        answer = connection.getresponse()
        return answer, answer.read()
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


def latest(gateway, principal, method, params, capabilities, **ask_more):
    """A request of an MCP client of the latest revision."""
    params = {**params, "_meta": {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }}
    headers = {**MCP, "mcp-protocol-version": LATEST, "mcp-method": method, "mcp-name": params.get("name", "")}
    return ask(gateway, principal, "POST", "/mcp", rpc(method, params), {k: v for k, v in headers.items() if v}, **ask_more)


def session(gateway, principal):
    """The headers of a new session of an older MCP client, for which streams can be resumed."""
    body = rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "abuse", "version": "1"}})
    answer, _ = exchange(gateway, principal, "POST", "/mcp", body, MCP)
    return {**MCP, "mcp-protocol-version": "2025-11-25", "mcp-session-id": answer.getheader("mcp-session-id", "")}


def close_after(seconds, opened):
    time.sleep(seconds)
    for connection in opened:
        connection.close()


def frame(kind, flags, stream, payload):
    """A frame of HTTP/2, RFC 9113, 4.1."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def grpc_streams(gateway, principal, path, streams):
    """A connection with so many gRPC streams that stay open and that nobody reads."""
    fields = {
        ":method": "POST", ":scheme": "http", ":authority": "x", ":path": path, "te": "trailers",
        "content-type": "application/grpc", "authorization": f"Bearer {gateway.keys[principal]}",
    }
    # Literal fields without indexing, RFC 7541, 6.2.2. All lengths are below 127.
    head = b"".join(b"\0" + bytes([len(it)]) + it.encode() + bytes([len(text)]) + text.encode() for it, text in fields.items())
    connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=5)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    for number in range(streams):
        stream = 2 * number + 1
        # END_HEADERS, then an empty message.
        connection.sendall(frame(1, 4, stream, head) + frame(0, 0, stream, bytes(5)))
    return connection


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
        close_after(10, opened)


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
    close_after(5, opened)


def sessions(gateway, principal, numbers=itertools.count()):
    """Calls with an idempotency key, each in a session of its own."""
    for number in itertools.islice(numbers, 200):
        headers = {"idempotency-key": f"{principal}-{number}"}
        ask(gateway, principal, "POST", "/skills/slow:invoke", {"input": {"ms": 1}, "session_id": f"s{number}"}, headers)


def key_results(gateway, principal, numbers=itertools.count()):
    headers = {"idempotency-key": f"{principal}-{next(numbers)}"}
    ask(gateway, principal, "POST", "/skills/say:invoke", {"input": {"text": "k" * 3_000_000}}, headers)


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
    close_after(5, opened)


def recordings(gateway, principal):
    """A call that says much."""
    ask(gateway, principal, "POST", "/skills/blob:invoke", {"input": {"bytes": 0, "text": 0, "says": 1000}})


def arguments(gateway, principal):
    """Calls with large arguments that wait."""
    opened = unread(gateway, principal, 60, "POST", "/skills/slow:invoke", {"input": {"ms": 5000, "text": "a" * 3_900_000}})
    close_after(5, opened)


def parked_calls(gateway, principal):
    """Calls whose questions nobody answers."""
    arguments = {"message": "Who?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    for _ in range(50):
        latest(gateway, principal, "tools/call", {"name": "question", "arguments": arguments}, {"elicitation": {}})


def tasks(gateway, principal):
    able = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    for _ in range(20):
        latest(gateway, principal, "tools/call", {"name": "task", "arguments": {"text": "t" * 1_000_000}}, able)


def resumable_streams(gateway, principal):
    """Calls whose streams nobody reads, and whose connections break."""
    call = rpc("tools/call", {"name": "blob", "arguments": {"bytes": 0, "text": 200_000, "says": 5}, "_meta": {"progressToken": 1}})
    for _ in range(10):
        close_after(0.5, unread(gateway, principal, 5, "POST", "/mcp", call, session(gateway, principal)))


def long_results(gateway, principal):
    ask(gateway, principal, "POST", "/mcp", rpc("tools/call", {"name": "blob", "arguments": {"bytes": 0, "text": 9_900_000}}), BATCHES)


def listeners(gateway, principal):
    opened = []
    for _ in range(60):
        opened += unread(gateway, principal, 4, "GET", "/mcp", headers=session(gateway, principal))
    close_after(5, opened)


def subscriptions(gateway, principal):
    for _ in range(20):
        headers = session(gateway, principal)
        for number in range(64):
            ask(gateway, principal, "POST", "/mcp", rpc("resources/subscribe", {"uri": f"file:///{number}/" + "u" * 1000}), headers)


def catalog(gateway, principal):
    opened = unread(gateway, principal, 100, "GET", "/skills:watch", headers={"accept": "text/event-stream"})
    close_after(5, opened + unread(gateway, principal, 120, "GET", "/tools?dialect=openai"))


def pages(gateway, principal):
    close_after(5, unread(gateway, principal, 220, "GET", "/docs/swagger-ui-bundle.js"))


def operations(gateway, principal):
    close_after(5, unread(gateway, principal, 120, "GET", "/metrics"))


def watchers(gateway, principal):
    close_after(5, [grpc_streams(gateway, principal, "/openskill.v1.SkillService/WatchSkills", 500) for _ in range(8)])


def call_streams(gateway, principal):
    paths = ["/openskill.v1.SkillService/InvokeMany", "/openskill.v1.AgentService/Chat"]
    close_after(5, [grpc_streams(gateway, principal, path, 500) for path in paths * 4])


# What each kind takes, as docs/limits.md calls it.
KINDS = {
    slow_bodies: ["request bodies that arrive or wait to be read"],
    batch_of_artifacts: ["responses in progress, or that clients have not read"],
    batch_of_results: ["responses in progress, or that clients have not read"],
    unread_artifacts: ["responses in progress, or that clients have not read"],
    prompts: ["responses in progress, or that clients have not read"],
    arguments: ["arguments of calls in flight"],
    recordings: ["messages of skills and users in calls in flight"],
    sessions: ["idempotency keys", "circuit breakers of sessions", "sessions with affinity"],
    key_results: ["results of idempotency keys"],
    parked_calls: ["calls that wait for answers from their MCP clients"],
    resumable_streams: ["streams of calls that MCP clients may resume", "retained MCP streams whose calls have ended"],
    long_results: ["long results over MCP"],
    tasks: ["tasks of MCP clients", "memory of MCP tasks"],
    listeners: ["MCP clients that listen for changes"],
    subscriptions: ["resources that MCP sessions subscribed to"],
    pages: ["responses in flight: pages and openapi.json"],
    catalog: ["responses in flight: skills, tools, artifacts and operations"],
    operations: ["responses in flight: /metrics, ListWorkers and ListCircuits"],
    followers: ["responses in flight: recorded calls, followers included", "responses in flight: conversations, watchers included"],
    messages: [],
    one_conversation: [],
    watchers: ["watchers of changes and operations, and reflection over gRPC"],
    call_streams: ["streams of many calls, and chats"],
}


def rows():
    """The rows of the table in the docs."""
    section = (ROOT / "docs/limits.md").read_text().split("## Kept for principals")[1].split("\n## ")[0]
    return [line.split("|")[1].strip().replace("`", "") for line in section.splitlines() if line.startswith("| ")][1:]


def abuse(gateway, kind, until, counts):
    while time.monotonic() < until:
        counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        try:
            kind(gateway, kind.__name__)
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.1)


def honest(gateway, until, took, failed):
    """What somebody does who uses all faces of a gateway, five times a second."""
    try:
        _, body = ask(gateway, "honest", "POST", "/agent/chat", {"message": "echo: hello"})
        conversation = json.loads(body)["conversation_id"]
        handle = blob(gateway, "honest", 500_000)
        mcp = session(gateway, "honest")
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        failed.append(("beginning", type(error).__name__, str(error)))
        return
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
        ("POST", "/mcp", rpc("tools/call", {"name": "say", "arguments": {"text": "hello"}}), mcp),
        ("POST", "/mcp", rpc("prompts/get", {"name": "fill", "arguments": {"text": "hello"}}), BATCHES),
        ("GET", "/metrics", None, {}),
        ("GET", "/openapi.json", None, {}),
    ]
    for number in itertools.count():
        if time.monotonic() > until:
            return
        method, path, body, headers = steps[number % len(steps)]
        headers = {"idempotency-key": f"honest-{number}"} if headers == "key" else headers
        begun = time.monotonic()
        try:
            if number % 1200 == 1199:
                steps[7] = ("GET", f"/artifacts/{blob(gateway, 'honest', 500_000)}", None, {})
            status, answer = ask(gateway, "honest", method, path, body, headers)
            if status != 200:
                failed.append((method, path, status, answer[:300].decode(errors="replace")))
        except (OSError, http.client.HTTPException) as error:
            failed.append((method, path, type(error).__name__, str(error)))
        took.append(time.monotonic() - begun)
        time.sleep(max(0.0, 0.2 - took[-1]))


def p99(times):
    """In milliseconds. Without any, nobody was served."""
    return 1000 * sorted(times)[int(0.99 * (len(times) - 1))] if times else float("inf")


def run(gateway, kinds, counts, took, failed):
    """Lets these kinds of abuse and the honest principal work side by side. The samples of the memory, with their minutes."""
    begun = time.monotonic()
    until, samples = begun + SECONDS, []
    threads = [threading.Thread(target=abuse, args=(gateway, kind, until, counts), daemon=True) for kind in kinds]
    threads.append(threading.Thread(target=honest, args=(gateway, until, took, failed), daemon=True))
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        time.sleep(1)
        samples.append(((time.monotonic() - begun) / 60, gateway.memory_mb()))
        if len(samples) % 30 == 0 and len(kinds) > 1:
            print(f"{samples[-1][0]:.1f} min: {samples[-1][1]:.0f} MB, {len(took)} honest requests, {len(failed)} failed", flush=True)
    for thread in threads:
        thread.join(150)
    return samples


def settled(gateway):
    """The memory once it is below what it may be, or after a minute."""
    for _ in range(60):
        if gateway.memory_mb() < AFTERWARDS_MB:
            break
        time.sleep(1)
    return gateway.memory_mb()


def together(gateway, kinds, quiet, failed):
    took, counts = [], {}
    samples = run(gateway, kinds, counts, took, failed)
    late = [it for it in samples if it[0] > SECONDS / 240] or samples
    slope = statistics.linear_regression(*zip(*late)).slope if len(late) > 2 else 0.0
    afterwards = settled(gateway)
    print(f"abuse: {counts}")
    print(f"honest: {len(took)} requests, {len(failed)} failed, p99 {p99(took):.0f} ms (quiet {p99(quiet):.0f} ms)")
    print(f"memory: peak {gateway.peak_mb:.0f} MB, {slope:+.2f} MB a minute, {afterwards:.0f} MB afterwards")
    return not failed and slope < SLOPE_MB_A_MINUTE and afterwards < AFTERWARDS_MB


def each(gateway, kinds, quiet, failed):
    print("| kind of abuse | times | honest requests, failed | p99, of quiet | peak | afterwards |\n|---|---|---|---|---|---|")
    is_good = True
    for kind in kinds:
        took, counts, before = [], {}, len(failed)
        samples = run(gateway, [kind], counts, took, failed)
        slower, afterwards, lost = p99(took) / p99(quiet), settled(gateway), len(failed) - before
        is_good &= not lost and slower <= P99_RATIO and afterwards < AFTERWARDS_MB
        peak = max(memory for _, memory in samples)
        print(f"| {kind.__name__} | {counts[kind.__name__]} | {len(took)}, {lost} | {p99(took):.0f} ms, {slower:.1f} "
              f"| {peak:.0f} MB | {afterwards:.0f} MB |", flush=True)
    return is_good


def main():
    names = [it for it in sys.argv[1:] if it != "--each"]
    if unknown := set(names) - {kind.__name__ for kind in KINDS}:
        raise SystemExit(f"no kind of abuse has these names: {sorted(unknown)}")
    kinds = [kind for kind in KINDS if not names or kind.__name__ in names]
    if missing := set(rows()) - {row for filled in KINDS.values() for row in filled}:
        raise SystemExit(f"no kind of abuse fills these rows of docs/limits.md: {sorted(missing)}")
    limited = ("--rate", "1", "--in-flight", "1")
    principals = {"honest": ("--admin",), **{kind.__name__: limited for kind in kinds}}
    if operations in kinds:
        principals["operations"] = ("--admin", *limited)
    with tempfile.TemporaryDirectory() as folder, Gateway(folder, principals) as gateway:
        quiet, failed = [], []
        honest(gateway, time.monotonic() + 12, quiet, failed)
        is_good = (each if "--each" in sys.argv else together)(gateway, kinds, quiet, failed)
    for line in failed[:20]:
        print("failed:", *line)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
