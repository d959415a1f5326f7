"""Compares sessions of Python code with other ways to run a cell.

    sessions.py kernels    a cell, a session with pandas and matplotlib, and 20 idle ones: beside ipykernel
    sessions.py starts     the first cell: beside a bare interpreter, and bubblewrap if it is installed
    sessions.py growth     the memory of a session over 1,000 cells
    sessions.py figures    figures of matplotlib arrive as PNG artifacts, once
    sessions.py cpython    40 modules of CPython's own tests, inside and outside (Debian: libpython3.11-testsuite)

OPENSKILL_BIN is the binary: times of a debug build say nothing. It prints tables, and fails if a bound is missed.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator

MODULES = ["numpy", "pandas", "matplotlib.pyplot"]
READY = "import pandas, matplotlib.pyplot\npandas.Series([1, 2]).sum()"
DEBIAN = "/usr/bin/python3.11"

CPYTHON = """
    array base64 binascii bisect bool builtin bytes cmath collections complex contextlib copy csv dataclasses datetime decimal
    dict enum exceptions float fractions functools generators gzip hashlib heapq io itertools json list long math pathlib pickle
    random re set statistics string struct subprocess tempfile textwrap threading typing unicode zlib
""".split()

# Runs the tests of a module, and prints the outcome of each case.
RUN_TESTS = """
import io, json, sys, unittest
class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.all = {}
    def addSuccess(self, case): self.all[case.id()] = "ok"
    def addError(self, case, error): self.all[case.id()] = "error: " + str(error[1])[:200]
    def addFailure(self, case, error): self.all[case.id()] = "failure: " + str(error[1])[:200]
    def addSkip(self, case, reason): self.all[case.id()] = "skipped"
    def addExpectedFailure(self, case, error): self.all[case.id()] = "ok"
    def addSubTest(self, case, part, error):
        if error: self.all[case.id()] = "failure: " + str(error[1])[:200]
outcomes = Outcomes()
told, sys.stdout, sys.stderr = sys.stdout, io.StringIO(), io.StringIO()
try:
    unittest.defaultTestLoader.loadTestsFromName("test.MODULE").run(outcomes)
finally:
    sys.stdout = told
print("OUTCOMES" + json.dumps(outcomes.all))
"""


class Sandbox:
    """`openskill up` with one worker and one skill that runs code in sessions."""

    def __init__(self, python: str, venv: str | None, memory_mb: int = 512) -> None:
        self._own = tempfile.TemporaryDirectory()
        base = Path(self._own.name)
        base.chmod(0o755)
        own = f"python: {{venv: {venv}, preload: [{', '.join(MODULES)}]}}\n" if venv else ""
        (base / "skills").mkdir()
        (base / "data").mkdir()
        (base / "skills/run.yaml").write_text(
            "id: run\ndescription: Runs code.\ntype: session\nruntime: python\nentry: execute\naffinity: caller\n"
            f"timeout_ms: 310000\nlimits: {{memory_mb: {memory_mb}, cpu_seconds: 1800, processes: 64, temp_mb: 256}}\n{own}"
            "parameters:\n  code: {type: string, required: true}\n  session_id: {type: string}\n"
            "  timeout: {type: integer, minimum: 1, maximum: 300}\n"
        )
        env = {
            "PATH": os.environ["PATH"],
            "OPENSKILL_PYTHON": python,
            "OPENSKILL_SESSIONS_PER_CALLER": "32",
            "OPENSKILL_TRACE_DIR": "memory",
        }
        binary = str(Path(os.environ["OPENSKILL_BIN"]).resolve())
        command = [binary, "up", "--workers", "1", "--listen", "127.0.0.1:0", "--skills-dir", str(base / "skills")]
        log = open(base / "log", "w")  # noqa: SIM115
        self.process = subprocess.Popen(command, env=env, cwd=base, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.process.stdout:
            if line.startswith("openskill is ready"):
                host = line.split("http://")[1].split(",")[0].strip()
                self.connection = http.client.HTTPConnection(host, timeout=320)
                break
        else:
            raise SystemExit((base / "log").read_text())
        self.until_warm()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self._own.cleanup()

    def until_warm(self) -> None:
        """Waits until a session begins with the modules loaded."""
        wanted = "import sys\n'pandas' in sys.modules" if "preload" in self.manifest() else "True"
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            answer = self.ask(code=wanted)
            if answer["success"] and answer["data"]["result"] == "True":
                return
            time.sleep(0.2)
        raise SystemExit(f"no session began with its modules: {answer}")

    def manifest(self) -> str:
        return (Path(self._own.name) / "skills/run.yaml").read_text()

    def ask(self, **arguments: object) -> dict:
        headers = {"content-type": "application/json", "x-openskill-timeout-ms": "310000"}
        self.connection.request("POST", "/skills/run:invoke", json.dumps({"input": arguments}), headers)
        return json.load(self.connection.getresponse())

    def run(self, code: str, **arguments: object) -> dict:
        answer = self.ask(code=code, **arguments)
        if not answer["success"]:
            raise SystemExit(f"{code}: {answer['error']}")
        return answer

    def artifact(self, answer: dict, number: int) -> bytes:
        artifact = answer["artifacts"][number]
        if "data" in artifact:
            return base64.b64decode(artifact["data"])
        self.connection.request("GET", f"/artifacts/{artifact['handle']}")
        return self.connection.getresponse().read()


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def median(work: Callable[[], object], times: int) -> float:
    return statistics.median(timed(work) for _ in range(times))


def pss_mb(pids: Iterator[int]) -> float:
    """The proportional set size of processes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def show(title: str, rows: list[tuple[str, float, float, str]]) -> bool:
    """Prints ours beside theirs. Rows: what, ours, theirs, and the least ratio, such as `theirs/ours >= 5`."""
    print(f"\n{title}")
    held = True
    for what, ours, theirs, bound in rows:
        ratio = theirs / ours
        ok = not bound or ratio >= float(bound)
        held &= ok
        print(f"  {what:44} {ours:10.2f} {theirs:10.2f}   {ratio:6.1f} times{'' if ok else f', wanted {bound}'}")
    return held


def kernels() -> bool:
    from jupyter_client.manager import start_new_kernel

    def execute(client: object, code: str) -> None:
        client.execute_interactive(code, timeout=60, output_hook=lambda _: None)

    with Sandbox(sys.executable, sys.prefix) as sandbox:
        sandbox.run("1", session_id="cell")
        ours = median(lambda: sandbox.run("1 + 1", session_id="cell"), 500)
        manager, client = start_new_kernel(stderr=subprocess.DEVNULL)
        theirs = median(lambda: execute(client, "1 + 1"), 500)
        client.stop_channels()
        manager.shutdown_kernel(now=True)

        numbers = iter(range(1000))
        ready = median(lambda: sandbox.run(READY, session_id=f"ready-{next(numbers) % 4}-{time.monotonic_ns()}"), 15)

        def kernel() -> None:
            manager, client = start_new_kernel(stderr=subprocess.DEVNULL)
            execute(client, READY)
            client.stop_channels()
            kept.append(manager)

        kept: list = []
        kernel_ready = median(kernel, 5)
        for manager in kept:
            manager.shutdown_kernel(now=True)
    with Sandbox(sys.executable, sys.prefix) as sandbox:
        for number in range(20):
            sandbox.run(READY, session_id=f"idle-{number}")
        time.sleep(1)
        worker = next(iter(descendants(sandbox.process.pid)))
        memory = pss_mb(descendants(worker))
        kept.clear()
        for _ in range(20):
            kernel()
        time.sleep(1)
        kernel_memory = pss_mb(manager.provisioner.pid for manager in kept)
        for manager in kept:
            manager.shutdown_kernel(now=True)
    return show(
        "ours, through the gateway, and ipykernel",
        [
            ("a cell, p50, ms", ours, theirs, "5"),
            ("a session with pandas and matplotlib, ms", ready, kernel_ready, "50"),
            ("20 idle ones, MB of PSS", memory, kernel_memory, "2"),
        ],
    )


def starts() -> bool:
    python = sys._base_executable
    bare = [python, "-I", "-c", "print(1 + 1)"]
    rows = []
    with Sandbox(python, None) as sandbox:
        ours = median(lambda: sandbox.run("print(1 + 1)"), 60)
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
    rows.append(("a bare interpreter, ms", ours, median(lambda: subprocess.run(bare, **silent), 30), ""))
    if bwrap := shutil.which("bwrap"):
        walls = "--unshare-all --die-with-parent --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp".split()
        rows.append(("bubblewrap, ms", ours, median(lambda: subprocess.run([bwrap, *walls, *bare], **silent), 30), "3"))
    for runtime in ("runsc", "docker"):
        if not shutil.which(runtime):
            print(f"{runtime} is not installed")
    return show("the first cell of a fresh session, and a fresh process", rows)


def growth() -> bool:
    cells = [
        "import os\nprint('x' * 1000)",
        "value = [number * number for number in range(1000)]\nlen(value)",
        "def work(a):\n    return a + 1\nwork(41)",
        "raise ValueError('expected')",
        "open('made.txt', 'w').write('text') and None",
    ]
    pages = "int(open('/proc/self/statm').read().split()[1])"
    with Sandbox(sys.executable, None) as sandbox:
        sizes = []
        for number in range(1000):
            sandbox.run(cells[number % len(cells)], session_id="s")
            if number % 100 == 99:
                size = int(sandbox.run(pages, session_id="s")["data"]["result"]) * 4096 / 2**20
                sizes.append(size)
    print(f"\nMB of a session after each 100 cells: {' '.join(f'{it:.1f}' for it in sizes)}")
    return sizes[-1] - sizes[0] <= 5


def figures() -> bool:
    draw = "import matplotlib.pyplot as plt\nfor n in range(2):\n    plt.figure()\n    plt.plot([1, 2, n])\n'drawn'"
    with Sandbox(sys.executable, sys.prefix) as sandbox:
        first = sandbox.run(draw, session_id="s")
        pictures = [sandbox.artifact(first, number) for number in range(len(first["artifacts"]))]
        again = sandbox.run("len(plt.get_fignums())", session_id="s")
    print(f"\n{len(pictures)} figures of {[len(it) for it in pictures]} bytes; then open: {again['data']['result']}")
    return (
        len(pictures) == 2
        and all(it.startswith(b"\x89PNG") for it in pictures)
        and again["data"]["result"] == "0"
        and not again.get("artifacts")
    )


def outcomes(text: str) -> dict[str, str] | None:
    lines = [line for line in text.splitlines() if line.startswith("OUTCOMES")]
    return json.loads(lines[-1].removeprefix("OUTCOMES")) if lines else None


def outside(code: str) -> dict[str, str] | None:
    """In a process of this machine, as a user without rights."""
    command = [DEBIAN, "-c", code]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, "TMPDIR": folder}
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    return outcomes(ran.stdout)


def cpython() -> bool:
    same, differing = 0, []
    with Sandbox(DEBIAN, None, memory_mb=2048) as sandbox:
        for module in CPYTHON:
            # The last outcome may have taken longer than a connection may idle.
            sandbox.connection.close()
            code = RUN_TESTS.replace("MODULE", f"test_{module}")
            answer = sandbox.run(code, timeout=300)["data"]
            inner, outer = outcomes(answer["stdout"]), outside(code)
            if inner is None or outer is None:
                reason = answer["error"] or "the process outside ended early"
                differing.append((module, "all", f"{reason}", ""))
                continue
            unlike = [(module, case, inner.get(case, "absent"), outer.get(case, "absent"))
                      for case in sorted(inner.keys() | outer.keys())
                      if inner.get(case, "").split(":")[0] != outer.get(case, "").split(":")[0]]
            differing += unlike
            same += not unlike
            print(f"  {module:16} {len(inner):6} cases, {len(unlike)} differ", flush=True)
    print(f"\n{same} of {len(CPYTHON)} modules of CPython's tests have the same outcome of every case")
    for module, case, inner, outer in differing:
        print(f"  {module}: {case}\n    inside:  {inner}\n    outside: {outer}")
    return True


if __name__ == "__main__":
    commands = {it.__name__: it for it in (kernels, starts, growth, figures, cpython)}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    raise SystemExit(0 if commands[sys.argv[1]]() else "a bound is missed")
