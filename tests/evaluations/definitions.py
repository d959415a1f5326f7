"""Compares what list_code_definitions finds with what others find: Python's own `ast`, and universal-ctags.

    definitions.py ast [FOLDER]              every class and function of FOLDER, by default Python's library
    definitions.py ctags LANGUAGE FOLDER     what ctags finds there, and the times of both
    definitions.py search PATTERN FOLDER     search_file_content and rg: the same lines, and the times of both
    definitions.py searches [FOLDER]         200 such searches: of FOLDER, by default Python's library, and of 500 MB of logs

OPENSKILL_BIN is the binary. It prints a table, and fails if less is found than these bounds say. Times depend on the build:
a debug build takes about ten times as long.
"""

from __future__ import annotations

import ast
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

SKILLS = Path(__file__).resolve().parent.parent.parent / "worker" / "skills"

LEAST_OF_AST = 0.999
LEAST_OF_CTAGS = 0.95

# What both list. ctags lists fields and variables too, which are no definitions here.
KINDS = {
    "Python": "cfm",
    "Rust": "fsgiMPnt",
    "C": "fdgsut",
    "C++": "fdgsutcn",
    "JavaScript": "fcm",
    "Go": "fstinc",
    "Java": "cmgi",
}
ENDINGS = {
    "Python": [".py"],
    "Rust": [".rs"],
    "C": [".c"],
    "C++": [".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"],
    "JavaScript": [".js", ".mjs"],
    "Go": [".go"],
    "Java": [".java"],
}


class Server:
    """`openskill up` with the folder as its allowed root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.left_out: list[dict] = []
        self._own = tempfile.TemporaryDirectory()
        env = {
            "PATH": os.environ["PATH"],
            "OPENSKILL_ALLOWED_ROOT": str(self.folder),
            "OPENSKILL_TRACE_DIR": "memory",
        }
        command = [str(Path(os.environ["OPENSKILL_BIN"]).resolve()), "up", "--workers", "1", "--listen", "127.0.0.1:0"]
        command += ["--skills-dir", str(SKILLS)]
        log = open(Path(self._own.name) / "log", "w")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, env=env, cwd=self._own.name, stdout=subprocess.PIPE, stderr=log, text=True
        )
        for line in self._process.stdout:
            if line.startswith("openskill is ready"):
                host = line.split("http://")[1].split(",")[0].strip()
                self.connection = http.client.HTTPConnection(host, timeout=70)
                return
        raise SystemExit(Path(self._own.name, "log").read_text())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)

    def call(self, skill: str, **arguments: object) -> dict:
        headers = {"content-type": "application/json", "x-openskill-timeout-ms": "60000"}
        self.connection.request("POST", f"/skills/{skill}:invoke", json.dumps({"input": arguments}), headers)
        answer = json.load(self.connection.getresponse())
        if not answer["success"]:
            raise SystemExit(f"{skill} {arguments}: {answer['error']}")
        return answer["data"]

    def path(self, file: str) -> Path:
        """A path of an answer on this machine."""
        return self.folder.parent / file

    def definitions(self, folder: Path, endings: list[str]) -> list[dict]:
        """All definitions below a folder: of the whole in one call, or of its parts if they are too many."""
        relative = folder.relative_to(self.folder)
        globs = ",".join(f"*{it}" for it in endings)
        answer = self.call("list_code_definitions", directory_path=str(relative), glob=globs, max_definitions=10000)
        if not answer["truncated"]:
            self.left_out += answer["left_out"]
            return answer["definitions"]
        found = []
        for part in sorted(folder.iterdir()):
            if part.is_dir() and not part.is_symlink():
                found += self.definitions(part, endings)
            elif part.suffix in endings and part.is_file() and not part.is_symlink():
                arguments = {"file_path": str(part.relative_to(self.folder)), "max_definitions": 10000}
                found += self.call("list_code_definitions", **arguments)["definitions"]
        return found


def in_ast(file: Path) -> set[tuple[str, int]] | None:
    """Qualified names and lines, as `ast` has them. None: Python itself can't parse it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return None
    found, stack = set(), [(tree, "")]
    while stack:
        node, scope = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{scope}.{child.name}" if scope else child.name
                found.add((name, child.lineno))
                stack.append((child, name))
            else:
                stack.append((child, scope))
    return found


def compare_with_ast(folder: Path) -> bool:
    with Server(folder) as server:
        begun = time.monotonic()
        ours: dict[Path, set[tuple[str, int]]] = {}
        for it in server.definitions(server.folder, [".py"]):
            file = server.path(it["file"])
            ours.setdefault(file, set()).add((it["qualified_name"], it["start_line"]))
        took = time.monotonic() - begun
        left = {server.path(it["path"]) for it in server.left_out}
    files = missing = total = more = 0
    for file in sorted(server.folder.rglob("*.py")):
        hidden = any(part.startswith(".") for part in file.relative_to(server.folder).parts)
        theirs = None if hidden or file.is_symlink() else in_ast(file)
        if theirs is None:
            continue
        files += 1
        total += len(theirs)
        absent = theirs - ours.get(file, set())
        more += len(ours.get(file, set()) - theirs)
        missing += len(absent)
        for name, line in sorted(absent)[:3]:
            print(f"missing: {file}:{line} {name}" + (" (left out)" if file in left else ""), file=sys.stderr)
    share = (total - missing) / max(total, 1)
    print("| folder | files | definitions of ast | missing | share | not in ast | seconds |")
    print("|---|---|---|---|---|---|---|")
    print(f"| {folder} | {files} | {total} | {missing} | {share:.5f} | {more} | {took:.1f} |")
    return share >= LEAST_OF_AST


def plain(name: str) -> str:
    """A name without what it belongs to, as both write it: `operator ==` and `operator==` are one."""
    if "operator" in name:
        return "".join(name.split())
    return name.split("::")[-1].split(".")[-1]


def compare_with_ctags(language: str, folder: Path) -> bool:
    files = [it for it in sorted(folder.rglob("*")) if it.suffix in ENDINGS[language] and it.is_file()]
    files = [it for it in files if not it.is_symlink() and it.stat().st_size <= 4 << 20]
    command = ["ctags", f"--languages={language}", f"--kinds-{language}={KINDS[language]}", "--output-format=json"]
    command += ["--map-C++=+.h"] if language == "C++" else []
    command += ["--fields=+n", "-f", "-", "-L", "-"]
    begun = time.monotonic()
    text = "\n".join(map(str, files))
    output = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", check=True).stdout
    ctags_took = time.monotonic() - begun
    theirs = set()
    for line in output.splitlines():
        tag = json.loads(line)
        # Names that ctags makes up for what has none.
        if tag.get("_type") == "tag" and not tag["name"].startswith("__anon") and "Anonymous" not in tag["name"]:
            theirs.add((Path(tag["path"]).resolve(), plain(tag["name"]), tag["line"]))
    with Server(folder) as server:
        begun = time.monotonic()
        listed = server.definitions(server.folder, ENDINGS[language])
        took = time.monotonic() - begun
        ours = {}
        for it in listed:
            lines = range(it["start_line"], it["end_line"] + 1)
            ours.setdefault((server.path(it["file"]).resolve(), plain(it["name"])), []).append(lines)
    # ctags gives the line of the name, which follows attributes and types.
    missing = [it for it in theirs if not any(it[2] in lines for lines in ours.get(it[:2], []))]
    for path, name, line in sorted(missing, key=str)[:: max(1, len(missing) // 12)]:
        print(f"missing: {path}:{line} {name}", file=sys.stderr)
    share = 1 - len(missing) / max(len(theirs), 1)
    print("| language | folder | files | of ctags | missing | share | ours | ctags s | ours s | times |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    counts = f"{len(files)} | {len(theirs)} | {len(missing)} | {share:.4f} | {len(listed)}"
    times = f"{ctags_took:.2f} | {took:.2f} | {took / max(ctags_took, 1e-9):.2f}"
    print(f"| {language} | {folder} | {counts} | {times} |")
    return share >= LEAST_OF_CTAGS


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def compare_with_rg(searches: list[tuple[str, str]], folder: Path, rounds: int) -> bool:
    """Searches, each with a pattern and a path below the folder: the same lines, and the times of both together."""
    differing, rg_times, own_times, found = [], [], [], 0
    with Server(folder) as server:
        for pattern, path in searches:
            command = ["rg", "--no-require-git", "--no-config", "--column", "--no-heading", "-H", "-n", pattern]
            command.append(str(folder / path))
            rg, own = [], []
            for _ in range(rounds):
                begun = time.monotonic()
                output = subprocess.run(command, capture_output=True, check=False).stdout
                rg.append(time.monotonic() - begun)
                begun = time.monotonic()
                answer = server.call("search_file_content", file_path=path, regex_pattern=pattern, max_matches=1000)
                own.append(time.monotonic() - begun)
            theirs = set()
            for line in output.splitlines():
                parts = line.split(b":", 3)
                if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit():
                    theirs.add((os.path.normpath(os.fsdecode(parts[0])), int(parts[1]), int(parts[2])))
            ours = {(str(server.path(it["path"])), it["line"], it["column"]) for it in answer["matches"]}
            same = ours <= theirs if answer["truncated"] else ours == theirs
            differing += [] if same else [(pattern, path, sorted(ours ^ theirs)[:3])]
            found += len(ours)
            rg_times.append(median(rg))
            own_times.append(median(own))
    speed = sum(rg_times) / sum(own_times)
    print("| searches | matching lines | that differ | rg s | ours s | speed |")
    print("|---|---|---|---|---|---|")
    print(f"| {len(searches)} | {found} | {len(differing)} | {sum(rg_times):.2f} | {sum(own_times):.2f} | {speed:.2f} |")
    for it in differing:
        print(f"  {it}")
    return not differing


def many_searches(library: Path, seed: int = 7) -> bool:
    """100 searches of Python's library, 100 of 500 MB of logs, and one of a small file many times."""
    draw = random.Random(seed)
    text = (library / "argparse.py").read_text() + (library / "typing.py").read_text()
    words = sorted({word for word in re.findall(r"[A-Za-z_]{7,}", text)})
    shapes = [r"{}", r"\b{}\b", r"def {}", r"{}\(", r"(?i){}$", r"^\s+{}", r"{}|{}", r"[a-z]+_{}", r"{}\.\w+"]
    patterns = [draw.choice(shapes).replace("{}", "%s") for _ in range(100)]
    patterns = [it % tuple(draw.choice(words) for _ in range(it.count("%s"))) for it in patterns]
    same = compare_with_rg([(it, ".") for it in patterns], library, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        lines = [
            f"2026-01-02T03:04:{number % 60:02} {draw.choice(['INFO', 'WARN', 'ERROR'])} {draw.choice(words)} took "
            f"{draw.randrange(10**6)} us for {draw.randbytes(8).hex()}"
            for number in range(200_000)
        ]
        for number in range(8):
            draw.shuffle(lines)
            (folder / f"{number}.log").write_text("\n".join(lines * 4))
        ids = [draw.choice(lines).rsplit(" ", 1)[1] for _ in range(100)]
        kinds = [r"{}", r"ERROR .*{}", r"took \d+ us for {}", r"{}$"]
        patterns = [draw.choice(kinds).replace("{}", it) for it in ids]
        size = sum(it.stat().st_size for it in folder.iterdir())
        print(f"{size / 1e6:.0f} MB of logs")
        same &= compare_with_rg([(it, ".") for it in patterns], folder, 1)
    (folder := Path(tempfile.mkdtemp())).chmod(0o755)
    (folder / "small.py").write_text("import os\n\n\ndef main():\n    return os.getpid()\n")
    same &= compare_with_rg([("getpid", "small.py")], folder, 200)
    shutil.rmtree(folder)
    return same


def main() -> int:
    match sys.argv[1:]:
        case ["ast"]:
            return not compare_with_ast(Path(sysconfig.get_path("stdlib")))
        case ["ast", folder]:
            return not compare_with_ast(Path(folder))
        case ["ctags", language, folder]:
            return not compare_with_ctags(language, Path(folder))
        case ["search", pattern, target]:
            target = Path(target).resolve()
            folder, path = (target, ".") if target.is_dir() else (target.parent, target.name)
            return not compare_with_rg([(pattern, path)], folder, 7)
        case ["searches"]:
            return not many_searches(Path(sysconfig.get_path("stdlib")))
        case ["searches", folder]:
            return not many_searches(Path(folder).resolve())
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
