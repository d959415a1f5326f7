"""Plays the host of one call: the other end of the descriptor that takes a skill's events."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

SKILLS = pathlib.Path(__file__).resolve().parent.parent


def write_skill(folder, body):
    """A skill whose handler has this body, beside a copy of the SDK."""
    shutil.copytree(SKILLS / "openskill_sdk", folder / "openskill_sdk", ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "made.py"
    indented = body.replace("\n", "\n    ")
    script.write_text(f"from openskill_sdk import *\ndef handle(input):\n    {indented}\nrun(handle)\n")
    return script


def play(script, answers=(), input=None):
    """Runs a script as the host does, and answers its questions in order: each with what becomes its `answer`, None to hang
    up. Gives the result, and the events."""
    ours, theirs = socket.socketpair()
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENSKILL_")}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**clean, "OPENSKILL_EVENTS_FD": str(theirs.fileno())},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    ours.settimeout(20)
    process.stdin.write(json.dumps({"input": input or {}}).encode())
    process.stdin.close()
    events, answers = [], iter(answers)
    try:
        for line in ours.makefile("rb"):
            events.append(json.loads(line))
            if "input_required" in events[-1]:
                answer = next(answers)
                if answer is None:
                    ours.shutdown(socket.SHUT_WR)
                    continue
                name = events[-1]["input_required"]["id"]
                ours.sendall(json.dumps({"answer": {"id": name, **answer}}).encode() + b"\n")
        return json.loads(process.stdout.read()), events
    finally:
        process.wait(20)
        process.stdout.close()
        process.stderr.close()
        ours.close()
