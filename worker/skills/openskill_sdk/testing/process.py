"""Starts the process of a skill, and ends it with all that it started."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, Callable, Mapping

from .channel import Answers, Channel
from .judge import judge
from .outcome import Outcome, failed

MAX_OUTPUT_BYTES = 10 * 1024 * 1024
MAX_STDERR_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024

#: How long the descriptors may stay open after the process and all that it started are gone.
GRACE_SECONDS = 5.0


def run_skill(
    skill: str | os.PathLike[str],
    input: Mapping[str, Any] | None = None,
    *,
    answers: Answers = (),
    allowed_root: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 15.0,
    session_id: str = "",
    principal: str = "",
    python: str | os.PathLike[str] | None = None,
) -> Outcome:
    """Runs a script, or a program, once, with `{"input": input}` on stdin.

    `answers` are for its questions: see `Answers`. `allowed_root` is an existing folder; without it, the skill gets an
    empty one named `data`, which is removed afterwards. `env` are the variables that its manifest lists. After `timeout`
    seconds it is ended, and the outcome is TIMEOUT. `python` is the interpreter of scripts, by default this one.
    """
    skill = Path(skill).resolve()
    if not skill.is_file():
        raise FileNotFoundError(f"there is no skill {skill}")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="openskill-test-"))).resolve()
        root = place / "data" if allowed_root is None else Path(allowed_root).resolve()
        if allowed_root is None:
            root.mkdir()
        (place / "tmp").mkdir()
        call_id = f"test-{secrets.token_hex(8)}"
        variables = {
            **(env or {}),
            **_environment(skill, root, call_id, timeout),
            "OPENSKILL_SESSION_ID": session_id,
            "TMPDIR": str(place / "tmp"),
            **({"OPENSKILL_PRINCIPAL": principal} if principal else {}),
        }
        command = [str(python or sys.executable), str(skill)] if skill.suffix == ".py" else [str(skill)]
        call = b'{"input": ' + json.dumps(dict(input or {})).encode("utf-8") + b"}\n"
        return _run(command, call, variables, root.parent, answers, timeout)


def _environment(skill: Path, root: Path, call_id: str, timeout: float) -> dict[str, str]:
    """What a worker sets, as docs/skill-environment.md has it."""
    trace_id = secrets.token_hex(16)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "OPENSKILL_ALLOWED_ROOT": str(root),
        "OPENSKILL_SKILL_ID": skill.stem,
        "OPENSKILL_CALL_ID": call_id,
        "OPENSKILL_TRACE_ID": trace_id,
        "TRACEPARENT": f"00-{trace_id}-{secrets.token_hex(8)}-01",
        "OPENSKILL_TIMEOUT_MS": str(int(timeout * 1000)),
    }


def _run(command: list[str], call: bytes, env: dict[str, str], cwd: Path, answers: Answers, timeout: float) -> Outcome:
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
            env={**env, "OPENSKILL_EVENTS_FD": str(theirs.fileno())}, pass_fds=[theirs.fileno()], start_new_session=True,
        )
    except OSError as error:
        ours.close()
        return failed("TOOL_INVOCATION_ERROR", f"the skill could not be started: {error.strerror}")
    finally:
        theirs.close()
    assert process.stdin and process.stdout and process.stderr
    channel, floods = Channel(ours, answers), Event()
    stdout, stderr = _Printed(process.stdout, floods), _Printed(process.stderr, None)
    threads = [_start(job) for job in (stdout.read, stderr.read, channel.attend, _Given(process.stdin, call).write)]
    try:
        status, leftovers = _wait(process, env["OPENSKILL_CALL_ID"], floods, timeout)
        for thread in threads:
            thread.join(GRACE_SECONDS)
    finally:
        _kill(process, env["OPENSKILL_CALL_ID"])
        ours.close()
    if floods.is_set():
        outcome = failed("OUTPUT_TOO_LARGE", f"the skill printed more than {MAX_OUTPUT_BYTES} bytes")
    elif status is None:
        outcome = failed("TIMEOUT", "the skill did not finish before the call's deadline and was killed")
    elif any(thread.is_alive() for thread in threads):
        outcome = failed("EXECUTION_ERROR", "the skill ended, but a process outside of it keeps its output open")
    else:
        outcome = judge(bytes(stdout.kept), status, leftovers)
        outcome.exit_code = status if status >= 0 else None
    return _with_events(outcome, channel.outcome, bytes(stderr.kept))


def _with_events(outcome: Outcome, said: Outcome, stderr: bytes) -> Outcome:
    outcome.progress, outcome.logs, outcome.partials = said.progress, said.logs, said.partials
    outcome.questions = said.questions
    outcome.artifacts = said.artifacts + outcome.artifacts
    outcome.warnings = outcome.warnings + said.warnings
    outcome.stderr = stderr.decode("utf-8", "replace")
    return outcome


class _Printed:
    """What was read from one descriptor: all of it until it floods, or the end of it."""

    def __init__(self, stream: IO[bytes], floods: Event | None) -> None:
        self._stream = stream
        self._floods = floods
        self.kept = bytearray()

    def read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), CHUNK_BYTES):
                self.kept += chunk
                if self._floods is None:
                    del self.kept[:-MAX_STDERR_BYTES]
                elif len(self.kept) > MAX_OUTPUT_BYTES:
                    self._floods.set()
                    return


class _Given:
    """What it reads on stdin. It need not read all of it."""

    def __init__(self, stream: IO[bytes], call: bytes) -> None:
        self._stream = stream
        self._call = call

    def write(self) -> None:
        try:
            with self._stream as stream:
                stream.write(self._call)
        except OSError:
            pass


def _start(job: Callable[[], None]) -> Thread:
    thread = Thread(target=job, daemon=True)
    thread.start()
    return thread


def _wait(process: subprocess.Popen[bytes], call_id: str, floods: Event, timeout: float) -> tuple[int | None, int]:
    """Waits for its end. Gives its status, None if it was not waited for, and how many processes it left running."""
    for _ in range(max(1, int(timeout / 0.05))):
        try:
            status = process.wait(0.05)
        except subprocess.TimeoutExpired:
            if floods.is_set():
                break
            continue
        left = len(_of_call(call_id))
        _kill(process, call_id)
        return status, left
    _kill(process, call_id)
    return None, 0


def _kill(process: subprocess.Popen[bytes], call_id: str) -> None:
    """Ends the processes of a call: its own, and those that it started."""
    process.kill()
    process.wait()
    for _ in range(100):
        left = _of_call(call_id)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass


def _of_call(call_id: str) -> list[int]:
    """The processes that run with this call's environment, but for ended ones. Linux lists them in /proc."""
    mark, found = f"OPENSKILL_CALL_ID={call_id}".encode("ascii"), []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            try:
                if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                pass
    return found
