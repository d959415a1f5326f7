#!/usr/bin/env python3
"""Builds all tests and runs them: each in a process of its own, several side by side.

    tests/suite.py [--threads N] [--limit SECONDS] [FILTER...]

A test whose name contains a filter runs; without filters, all do. The last line counts them and names the slowest. The time
and the CPU of each, with its children, are in target/test-times.tsv.

Standard library only: it runs before anything is installed.
"""

import argparse
import collections
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TIMES = REPOSITORY / "target/test-times.tsv"
# How long processes that outlive their test may take to end.
GRACE_SECONDS = 15
# A test exits with it when it has to run alone: see tests/src/alone.rs.
ALONE = 75
IMAGES = re.compile(r"(compose|dist)::")
# How many of these may run at a time: one keeps the container engine busy, and a browser is many processes.
AT_ONCE = {IMAGES: 1, re.compile(r"browser::"): 2}
# These take longest, so they start first.
SLOW = re.compile(r"compose::|dist::|agent_turns::restarts::|walls::|browser::task::")

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def in_own_group():
    os.setpgid(0, 0)
    # A run that is killed takes its tests along.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclasses.dataclass(frozen=True)
class Test:
    program: str
    folder: str
    name: str

    def start(self, output, environment):
        return subprocess.Popen(
            [self.program, "--exact", self.name, "--nocapture"],
            cwd=self.folder,
            env=environment | {"CARGO_MANIFEST_DIR": self.folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=in_own_group,
        )


@dataclasses.dataclass
class Run:
    test: Test
    process: subprocess.Popen
    output: object
    started: float
    hung: bool = False

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


@dataclasses.dataclass
class Outcome:
    name: str
    result: str
    seconds: float
    cpu_seconds: float


def programs():
    """The test programs and their packages' folders, built."""
    build = ["cargo", "test", "--locked", "--workspace", "--tests", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(build, cwd=REPOSITORY, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            yield message["executable"], os.path.dirname(message["manifest_path"])


def tests(filters):
    found = []
    for program, folder in programs():
        listed = subprocess.run([program, "--list", "--format", "terse", *filters], cwd=folder, stdout=subprocess.PIPE, check=True)
        lines = (line.rpartition(": ") for line in listed.stdout.decode().splitlines())
        found += [Test(program, folder, name) for name, _, kind in lines if kind == "test"]
    for unused in (word for word in filters if not any(word in test.name for test in found)):
        sys.exit(f"no test has '{unused}' in its name")
    return sorted(found, key=lambda test: not SLOW.match(test.name))


class Suite:
    def __init__(self, threads, limit):
        self.threads = threads
        self.limit = limit
        # No earlier run has used it.
        self.images = f"suite{time.time_ns()}"
        # With one thread, the name of a test has no line of its own, on which its output could follow.
        self.environment = os.environ | {"OPENSKILL_TEST_IMAGES": self.images, "RUST_TEST_THREADS": "2"}
        self.running = {}
        self.alone = []
        self.outcomes = []
        self.skipped = collections.Counter()
        self.failures = {}
        self.reported = time.monotonic()

    def run(self, waiting):
        # A test that finds out that it must be alone ends at once, and runs after the others.
        self.environment["OPENSKILL_TEST_ALONE"] = "later"
        self.run_all(waiting, self.threads)
        self.environment["OPENSKILL_TEST_ALONE"] = "now"
        self.run_all(self.alone, 1)

    def run_all(self, waiting, threads):
        waiting = list(waiting)
        while waiting or self.running:
            while len(self.running) < threads and (test := self.startable(waiting)):
                waiting.remove(test)
                output = tempfile.TemporaryFile()
                process = test.start(output, self.environment)
                self.running[process.pid] = Run(test, process, output, time.monotonic())
            self.reap()
            self.report(len(waiting))

    def startable(self, waiting):
        names = [run.test.name for run in self.running.values()]
        full = [group for group, most in AT_ONCE.items() if sum(bool(group.match(name)) for name in names) >= most]
        return next((test for test in waiting if not any(group.match(test.name) for group in full)), None)

    def reap(self):
        """Waits for a process that ended, a second at most: a test, or what a test left behind."""
        ended = None
        until = time.monotonic() + 1
        while ended is None and time.monotonic() < until:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid:
                ended = self.running.pop(pid, None)
            else:
                time.sleep(0.005)
        if ended:
            self.end(ended, os.waitstatus_to_exitcode(status), usage)
        for run in self.running.values():
            if not run.hung and time.monotonic() - run.started > self.limit_of(run.test):
                run.hung = True
                os.killpg(run.process.pid, signal.SIGKILL)

    def limit_of(self, test):
        # The first of them downloads a Debian.
        return self.limit * (2 if IMAGES.match(test.name) else 1)

    def end(self, run, code, usage):
        run.process.returncode = code
        seconds = time.monotonic() - run.started
        text = run.text()
        skips = re.findall(r"^SKIPPED [^:]*(?:::[^:]+)*: (.*)$", text, re.MULTILINE)
        if code == ALONE and self.environment["OPENSKILL_TEST_ALONE"] == "later":
            self.alone.append(run.test)
            return
        if code:
            result = "failed"
            if run.hung:
                text += f"\nit was killed: it did not end within {self.limit_of(run.test)} seconds"
            elif code < 0:
                text += f"\nsignal {-code} ended it"
            self.failures[run.test.name] = text
            print(f"\nFAILED {run.test.name}\n{text}", flush=True)
        elif skips or re.search(r"\.\.\. ignored", text):
            result = "skipped"
            self.skipped.update(skips[:1] or ["ignored unless asked for"])
        else:
            result = "passed"
        self.outcomes.append(Outcome(run.test.name, result, seconds, usage.ru_utime + usage.ru_stime))

    def stop(self):
        """Ends what runs, and removes the images that its tests share. Returns what ran on after its test."""
        for run in self.running.values():
            os.killpg(run.process.pid, signal.SIGKILL)
        if shutil.which("docker"):
            for name in (f"openskill-{program}:{self.images}" for program in ("gateway", "worker", "worker-browser")):
                # Containers of tests that were killed.
                if left := docker("ps", "--all", "--quiet", "--filter", f"ancestor={name}").split():
                    docker("rm", "--force", "--volumes", *left)
                docker("image", "rm", "--force", name)
            docker("image", "prune", "--force", "--filter", "label=openskill.stage")
        return leftovers()

    def report(self, waiting):
        if time.monotonic() - self.reported > 30:
            self.reported = time.monotonic()
            names = ", ".join(run.test.name for run in self.running.values())
            print(f"{len(self.outcomes)} ended, {len(self.failures)} failed, {waiting} wait; running: {names}", flush=True)


def docker(*arguments):
    """What the command line of the engine says. Nothing, if there is no engine."""
    try:
        return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"docker {arguments[0]}: {error}", flush=True)
        return ""


def children():
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name, which may contain anything: the state, and the parent.
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            pass
    return found


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def leftovers():
    """What tests left running, killed. They have become children of this process."""
    until = time.monotonic() + GRACE_SECONDS
    while children() and time.monotonic() < until:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        time.sleep(0.05)
    found = [f"{pid} {command_line(pid)}" for pid in children()]
    while left := children():
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return found


def reason(output):
    """The first lines of a panic, so that the end of a long log says why a test failed."""
    lines = output[max(output.find("panicked at"), 0):].splitlines()[1:7]
    return "\n".join(f"    {line[:300]}" for line in lines)


def minutes(seconds):
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s" if seconds >= 60 else f"{seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2 * os.cpu_count(), help="tests side by side, most of which wait")
    parser.add_argument("--limit", type=int, default=480, help="seconds after which a test counts as hung")
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    suite = Suite(arguments.threads, arguments.limit)
    wanted = tests(arguments.filters)
    # Not earlier: what a build leaves running, such as a compiler's cache, is not the tests'.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        suite.run(wanted)
    finally:
        left = suite.stop()
    rows = sorted(suite.outcomes, key=lambda outcome: -outcome.seconds)
    lines = [f"{row.seconds:.2f}\t{row.cpu_seconds:.2f}\t{row.result}\t{row.name}\n" for row in rows]
    TIMES.write_text("seconds\tcpu_seconds\tresult\ttest\n" + "".join(lines))
    for process in left:
        print(f"a test left this running: {process}")
    for name, text in suite.failures.items():
        print(f"FAILED {name}\n{reason(text)}")
    counts = collections.Counter(outcome.result for outcome in rows)
    reasons = ", ".join(f"{count} × {reason}" for reason, count in suite.skipped.items())
    skipped = f"{counts['skipped']} skipped" + (f" ({reasons})" if reasons else "")
    slowest = ", ".join(f"{row.name} {row.seconds:.0f} s" for row in rows[:5])
    elapsed = minutes(time.monotonic() - started)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {skipped} in {elapsed}; slowest: {slowest}")
    sys.exit(bool(suite.failures or left))


if __name__ == "__main__":
    main()
