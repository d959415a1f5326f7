"""Runs real MCP clients against a gateway, and prints what works with each: `make mcp-clients`.

usage: mcp_clients.py BINARY VENVS [NAME...]

VENVS has a virtual environment for each client, named as below.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = ROOT / "tests/clients/real"
BINARY, VENVS = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
WANTED = sys.argv[3:]
COLUMNS = ["list", "call", "progress", "cancel", "question", "new"]

# What a client has no way to do: mcp-proxy passes on neither cancellations nor changes.
LACKS = {"mcp-proxy": {"cancel"}}

# The environment, the package whose version is shown, the script, and what it gets beside the usual: {url}, {binary}, {venv}.
CLIENTS = [
    ("mcp-1.30", "mcp", "mcp_1.py", []),
    ("mcp-1.9", "mcp", "mcp_1.py", []),
    ("fastmcp", "fastmcp", "fastmcp_4.py", []),
    ("langchain", "langchain-mcp-adapters", "langchain_adapters.py", []),
    ("openai-agents", "openai-agents", "openai_agents.py", []),
    ("pydantic-ai", "pydantic-ai-slim", "pydantic_agents.py", []),
    ("mcp-proxy", "mcp-proxy", "mcp_1.py", ["{venv}/bin/mcp-proxy", "--transport", "streamablehttp", "{url}"]),
    ("claude", "claude-agent-sdk", "claude_code.py", []),
    # The command that clients start, before the same gateway.
    ("mcp-1.30", "mcp", "mcp_1.py", ["{binary}", "mcp", "--gateway", "{base}"]),
]


def start(folder):
    """A gateway with the skills of the tests, and a folder for one more."""
    skills = [folder, ROOT / "tests/fixtures/mcp_face", ROOT / "tests/fixtures/skills", ROOT / "worker/skills"]
    (folder / "slow.yaml").write_text(
        f"id: slow\ndescription: Sleeps.\ntype: cli\nruntime: exec\nentry: slow.sh\ntimeout_ms: 120000\nenv: ['MARK={folder}']\n"
    )
    (folder / "slow.sh").write_text("#!/bin/sh\nsleep 100\necho null\n")
    (folder / "slow.sh").chmod(0o755)
    (folder / "data").mkdir()
    command = [BINARY, "up", "--listen", "127.0.0.1:0", "--workers", "1", "--allowed-root", folder / "data"]
    command += ["--skills-dir", ":".join(map(str, skills))]
    environment = {**os.environ, "OPENSKILL_TRACE_DIR": "off"}
    process = subprocess.Popen(
        list(map(str, command)), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for line in process.stdout:
        found = re.search(r"openskill is ready in .*: (http://[\d.:]+)", line)
        if found:
            return process, found.group(1)
    raise SystemExit("the gateway did not start")


def see(environment, package, script, more):
    """The version of a client, and what works with it."""
    venv = VENVS / environment
    asked = f"import importlib.metadata as it; print(it.version('{package}'))"
    version = subprocess.run([venv / "bin/python", "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="openskill-client-"))
    process, base = start(folder)
    try:
        names = {"url": f"{base}/mcp", "base": base, "binary": BINARY, "venv": venv}
        command = [venv / "bin/python", REAL / script, names["url"], BINARY, folder, *(it.format(**names) for it in more)]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=180)
        lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        return version, json.loads(lines[-1]) if lines else {}, ran.stderr
    except subprocess.TimeoutExpired:
        return version, {}, "timeout"
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    print("| client | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    has_failed = False
    for environment, package, script, more in CLIENTS:
        if WANTED and environment not in WANTED:
            continue
        version, seen, errors = see(environment, package, script, more)
        seen.update({column: None for column in LACKS.get(environment, ()) if seen.get(column) is False})
        shown = {True: "yes", "listed": "when it lists", None: "–", False: "**no**"}
        cells = [shown[seen.get(column, False)] for column in COLUMNS]
        way = " over `openskill mcp`" if "{binary}" in more else ""
        print(f"| {package} {version}{way} | " + " | ".join(cells) + " |", flush=True)
        if "**no**" in cells or "Traceback" in errors:
            has_failed = True
            print(errors[-3000:], file=sys.stderr)
    sys.exit(1 if has_failed else 0)


main()
