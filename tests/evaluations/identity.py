#!/usr/bin/env python3
"""Measures two promises of identity: how exact a rate limit is, and whether the time of a refusal tells anything of a key.

    OPENSKILL_BIN=target/release/openskill python3 tests/evaluations/identity.py [rate|keys]

rate: calls come at twice the rate of their principal, evenly, for two minutes. What is let through must be the burst and the rate
      times the time, within 5 %.
keys: 10,000 requests of each of three kinds of wrong keys, in random order on one connection: an id that nobody has, the id of a key
      with a secret that differs from its first character on, and one that differs in its last character. By the Mann-Whitney U
      test, two-sided, no two kinds may differ with p < 0.01 / 3 (Bonferroni for three comparisons).

Exit codes: 0 both hold, 1 one of them does not.
"""

import http.client
import math
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / os.environ.get("OPENSKILL_BIN", "target/release/openskill")
RATE, SECONDS, THREADS = 50, 120, 4
TRIES = 10_000


class Gateway:
    """A gateway with two workers and the skills of the tests, and a key of a principal with a rate."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        keys = self.folder / "keys.toml"
        create = [BINARY, "keys", "create", "--file", keys, "--principal", "p", "--skills", "in_echo", "--rate", str(RATE)]
        self.key = subprocess.run(create, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.folder / "data").mkdir()
        environment = {"PATH": os.environ["PATH"], "OPENSKILL_KEYS": str(keys), "OPENSKILL_TRACE_DIR": "off", "OPENSKILL_ALLOWED_ROOT": "data"}
        up = [BINARY, "up", "--listen", f"127.0.0.1:{self.port}", "--agent-store", "memory", "--skills-dir", ROOT / "tests/fixtures/skills"]
        self.process = subprocess.Popen(up, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(300):
            try:
                if self.ask("GET", "/skills/in_echo", self.key)[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the gateway did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, method, path, key, connection=None, body=None):
        connection = connection or self.connect()
        connection.request(method, path, body, {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def rate(gateway):
    """Whether the number of calls that were let through is the one that the policy says."""
    time.sleep(2)  # the bucket is full, and the first calls are its burst
    counts, lock, begun = {200: 0, 429: 0}, threading.Lock(), time.monotonic()
    pace = THREADS / (2 * RATE)

    def load(number):
        connection, step = gateway.connect(), 0
        while (due := begun + number * pace / THREADS + step * pace) < begun + SECONDS:
            time.sleep(max(0.0, due - time.monotonic()))
            status, _ = gateway.ask("POST", "/skills/in_echo:invoke", gateway.key, connection, '{"input": {}}')
            with lock:
                counts[status] = counts.get(status, 0) + 1
            step += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    expected = RATE + RATE * took
    off = counts[200] / expected - 1
    print(f"rate: {sum(counts.values())} calls in {took:.1f} s: {counts[200]} let through, {expected:.0f} expected, {off:+.2%}; {counts}")
    return abs(off) <= 0.05 and set(counts) == {200, 429}


def mann_whitney(one, other):
    """The p value of the two-sided U test, by the normal approximation with a correction for ties."""
    values = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    ranks, ties, at = 0.0, 0.0, 0
    while at < len(values):
        end = at
        while end < len(values) and values[end][0] == values[at][0]:
            end += 1
        ranks += sum(1 for value in values[at:end] if value[1] == 0) * (at + 1 + end) / 2
        ties += (end - at) ** 3 - (end - at)
        at = end
    n, m = len(one), len(other)
    mean = n * m / 2
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))))
    z = (ranks - n * (n + 1) / 2 - mean) / deviation
    return math.erfc(abs(z) / math.sqrt(2))


def keys(gateway):
    """Whether the times of refusals are those of one distribution."""
    prefix, key_id, secret = gateway.key.split("_", 2)
    other = lambda character: "b" if character != "b" else "c"
    wrong = {
        "unknown id": f"{prefix}_{'0' * len(key_id)}_{secret}",
        "first character": f"{prefix}_{key_id}_{''.join(map(other, secret))}",
        "last character": f"{prefix}_{key_id}_{secret[:-1]}{other(secret[-1])}",
    }
    order = [kind for kind in wrong for _ in range(TRIES)]
    random.shuffle(order)
    times, connection = {kind: [] for kind in wrong}, gateway.connect()
    for kind in [*wrong] * 200 + order:
        begun = time.perf_counter_ns()
        status, _ = gateway.ask("GET", "/skills/in_echo", wrong[kind], connection)
        took = time.perf_counter_ns() - begun
        assert status == 401, status
        times[kind].append(took)
    times = {kind: of[200:] for kind, of in times.items()}
    for kind, of in times.items():
        print(f"keys: {kind}: {len(of)} refusals, median {statistics.median(of) / 1000:.2f} µs")
    kinds, holds = [*times], True
    for one, two in ((0, 1), (0, 2), (1, 2)):
        p = mann_whitney(times[kinds[one]], times[kinds[two]])
        holds &= p >= 0.01 / 3
        print(f"keys: {kinds[one]} and {kinds[two]}: p = {p:.3f}")
    return holds


def main():
    wanted = sys.argv[1:] or ["rate", "keys"]
    holds = True
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder, Gateway(folder) as gateway:
            holds &= {"rate": rate, "keys": keys}[name](gateway)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
