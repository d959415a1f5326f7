"""Runs every shipped skill as the host does: a process, JSON on stdin, one JSON value on stdout, an exit code.

python3 -m unittest discover -s worker/skills/tests
"""

import csv
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from manifests import SKILLS, manifest, problems

REPOSITORY = SKILLS.parent.parent
NAMES = ("ask_user", "calculator", "echo", "file_search", "log_transform")


class Answer:
    def __init__(self, process):
        self.exit = process.returncode
        self.stdout = process.stdout.decode("utf-8")
        self.stderr = process.stderr.decode("utf-8", "replace")
        self.result = json.loads(self.stdout)  # fails if there is more than one value
        self.data = self.result["data"]
        self.error = self.result["error"]
        self.truncated = self.result.get("meta", {}).get("truncated", False)


def run_script(script, stdin, cwd, env=None, timeout=20, **options):
    if not isinstance(stdin, bytes):
        stdin = json.dumps(stdin).encode()
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENSKILL_")}
    process = subprocess.run(
        [sys.executable, str(script)],
        input=stdin,
        cwd=str(cwd),
        env={**clean, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=timeout,
        **options,
    )
    return Answer(process)


class SkillTest(unittest.TestCase):
    """A new working folder with a `data` folder in it for each test."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="skill-test-")).resolve()
        self.addCleanup(shutil.rmtree, self.work)
        self.data = self.work / "data"
        self.data.mkdir()

    def put(self, path, content=""):
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return file

    def call(self, skill, cwd=None, env=None, **input):
        env = {"OPENSKILL_ALLOWED_ROOT": str(self.data)} if env is None else env
        answer = run_script(SKILLS / f"{skill}.py", {"input": input}, cwd or self.work, env)
        if answer.exit == 0:
            self.assertIs(answer.result["success"], True)
            self.assertIsNone(answer.error)
            self.assertEqual([], problems(manifest(skill)["output_schema"], answer.data))
        else:
            self.assertIs(answer.result["success"], False)
            self.assertIsNone(answer.data)
            self.assertNotIn(str(self.work), answer.stdout, "an error must not name a path of the host")
        return answer

    def ok(self, skill, **input):
        answer = self.call(skill, **input)
        self.assertEqual(0, answer.exit, answer.stdout + answer.stderr)
        return answer

    def refused(self, code, skill, field=None, **input):
        answer = self.call(skill, **input)
        self.assertEqual(code, answer.error and answer.error["code"], answer.stdout)
        self.assertEqual(3 if code == "INTERNAL" else 1, answer.exit)
        if field is not None:
            self.assertEqual(field, answer.error["details"]["field"])
        return answer


class ManifestsHold(SkillTest):
    def test_every_example_in_a_manifest_holds_on_the_shipped_data(self):
        for name in NAMES:
            for example in manifest(name)["examples"]:
                with self.subTest(skill=name, example=example["name"]):
                    answer = self.call(name, cwd=REPOSITORY, env={}, **example["input"])
                    self.assertEqual(example.get("error"), answer.error and answer.error["code"], answer.stdout)
                    if "data" in example:
                        self.assertEqual(example["data"], answer.data)

    def test_examples_that_succeed_fit_the_input_schema(self):
        for name in NAMES:
            for example in manifest(name)["examples"]:
                if "error" not in example:
                    with self.subTest(skill=name, example=example["name"]):
                        self.assertEqual([], problems(manifest(name)["input_schema"], example["input"]))

    def test_manifests_name_their_script_and_declare_closed_inputs(self):
        for name in NAMES:
            with self.subTest(skill=name):
                declared = manifest(name)
                self.assertEqual(name, declared["id"])
                self.assertTrue((SKILLS / declared["entry"]).is_file())
                self.assertIs(declared["input_schema"]["additionalProperties"], False)
                for key, field in declared["input_schema"]["properties"].items():
                    self.assertIn("description", field, key)

    def test_defaults_in_a_manifest_are_the_defaults_of_the_script(self):
        self.put("data/a.log", "2026-01-02T03:04:05Z INFO one\n")
        for name, input in (("file_search", {"query": "one"}), ("log_transform", {"input_path": "data/a.log"})):
            fields = manifest(name)["input_schema"]["properties"]
            defaults = {key: field["default"] for key, field in fields.items() if "default" in field}
            self.assertEqual(self.ok(name, **input).data, self.ok(name, **input, **defaults).data)

    def test_a_field_that_no_schema_declares_is_refused_by_every_skill(self):
        inputs = {
            "ask_user": {"questions": [{"id": "x", "text": "x"}]},
            "echo": {"text": "x"},
            "file_search": {"query": "x"},
            "calculator": {"numbers": [1], "ops": ["sum"]},
            "log_transform": {"input_path": "data/a.log"},
        }
        self.put("data/a.log")
        for name in NAMES:
            with self.subTest(skill=name):
                self.refused("INVALID_ARGUMENT", name, field="colour", **inputs[name], colour="blue")

    def test_a_missing_required_field_is_named(self):
        for name in NAMES:
            with self.subTest(skill=name):
                answer = self.refused("INVALID_ARGUMENT", name)
                self.assertEqual(manifest(name)["input_schema"]["required"][0], answer.error["details"]["field"])
                self.assertEqual("is required", answer.error["details"]["reason"])


class TheContract(SkillTest):
    def skill(self, body):
        """A skill written for one test, beside a copy of the SDK."""
        shutil.copytree(
            SKILLS / "openskill_sdk", self.work / "openskill_sdk", ignore=shutil.ignore_patterns("__pycache__")
        )
        return self.put(
            "made.py",
            "from openskill_sdk import *\ndef handle(input):\n    " + body.replace("\n", "\n    ") + "\nrun(handle)\n",
        )

    def test_stdin_that_is_not_json_ends_with_exit_code_2(self):
        for stdin in (
            b"",
            b"{",
            b"\xff\xfe",
            b'{"input":{"text":NaN}}',
            b'{"input":{"text":"\\ud800"}}',
            b"[" * 100_000,
            b'{"input":{"text":"a","text":"b"}}',
            b'{"input":{}} {"input":{}}',
            b"9" * 10_000,
        ):
            with self.subTest(stdin=stdin[:40]):
                answer = run_script(SKILLS / "echo.py", stdin, self.work)
                self.assertEqual((2, "INVALID_JSON"), (answer.exit, answer.error["code"]), answer.stdout)

    def test_json_of_the_wrong_shape_is_an_invalid_argument(self):
        for stdin in ([], None, "x", {}, {"input": []}, {"input": None}, {"text": "x"}):
            with self.subTest(stdin=stdin):
                answer = run_script(SKILLS / "echo.py", stdin, self.work)
                self.assertEqual((1, "INVALID_ARGUMENT"), (answer.exit, answer.error["code"]))

    def test_what_the_host_adds_beside_the_input_is_ignored(self):
        answer = run_script(SKILLS / "echo.py", {"input": {"text": "x"}, "trace_id": "t"}, self.work)
        self.assertEqual({"echoed": "x"}, answer.data)

    def test_printing_does_not_spoil_stdout(self):
        script = self.skill(
            "import os, subprocess, sys\nprint('one')\nsys.__stdout__.write('two')\nos.write(1, b'three')\n"
            "subprocess.run(['echo', 'four'])\nreturn {'fine': True}"
        )
        answer = run_script(script, {"input": {}}, self.work)
        self.assertEqual({"fine": True}, answer.data)
        for word in ("one", "two", "three", "four"):
            self.assertIn(word, answer.stderr)

    def test_an_unexpected_exception_is_internal_and_tells_no_path(self):
        script = self.skill(f"raise RuntimeError('lost {self.work}/secret/file')")
        answer = run_script(script, {"input": {}}, self.work)
        self.assertEqual((3, "INTERNAL"), (answer.exit, answer.error["code"]))
        self.assertNotIn(str(self.work), answer.stdout)
        line = json.loads(answer.stderr)
        self.assertEqual("RuntimeError", line["exception"])
        self.assertNotIn(str(self.work), answer.stderr)

    def test_a_missing_host_file_is_internal_and_tells_no_path(self):
        script = self.skill(f"open({str(self.work / 'nowhere')!r})")
        answer = run_script(script, {"input": {}}, self.work)
        self.assertEqual((3, "INTERNAL"), (answer.exit, answer.error["code"]))
        self.assertNotIn(str(self.work), answer.stdout)

    def test_a_value_that_is_not_json_and_a_call_of_exit_are_internal(self):
        for body in ("return object()", "return float('nan')", "import sys; sys.exit(0)"):
            with self.subTest(body=body):
                shutil.rmtree(self.work / "openskill_sdk", ignore_errors=True)
                answer = run_script(self.skill(body), {"input": {}}, self.work)
                self.assertEqual((3, "INTERNAL"), (answer.exit, answer.error["code"]))

    def test_a_file_whose_place_a_folder_takes_at_the_last_moment_is_refused(self):
        script = self.skill(
            "import os\nfrom openskill_sdk.paths import Root\nrename = os.rename\n"
            "def swapped(*names, **folders):\n    os.makedirs('data/out/a' + input['within'])\n    rename(*names, **folders)\n"
            "os.rename = swapped\nwith Root() as root:\n    root.write('data/out/a', [b'x'], 'output_path', replace=True)"
        )
        for within in ("", "/folder"):
            answer = run_script(script, {"input": {"within": within}}, self.work)
            self.assertEqual("INVALID_ARGUMENT", answer.error["code"], answer.error)
            self.assertEqual(["a"], os.listdir(self.data / "out"), "no temporary file is left")
            shutil.rmtree(self.data / "out")

    def test_a_result_over_ten_megabytes_is_refused_by_name(self):
        answer = run_script(self.skill("return 'x' * 10_000_001"), {"input": {}}, self.work)
        self.assertEqual((1, "OUTPUT_TOO_LARGE"), (answer.exit, answer.error["code"]))

    def test_a_result_can_say_that_it_is_truncated(self):
        answer = run_script(self.skill("return Result([1], truncated=True)"), {"input": {}}, self.work)
        self.assertEqual(([1], True), (answer.data, answer.truncated))

    def test_a_skill_error_keeps_its_code_and_details(self):
        answer = run_script(
            self.skill("raise SkillError('NETWORK_ERROR', 'no line', host='x')"), {"input": {}}, self.work
        )
        self.assertEqual({"code": "NETWORK_ERROR", "message": "no line", "details": {"host": "x"}}, answer.error)

    def test_events_are_json_lines_on_the_descriptor_the_host_names(self):
        script = self.skill("progress(0.5, 'half')\npartial([1])\nlog('info', 'hi')\nreturn 1")
        read, write = os.pipe()
        try:
            run_script(script, {"input": {}}, self.work, {"OPENSKILL_EVENTS_FD": str(write)}, pass_fds=[write])
            os.close(write)
            with os.fdopen(read, "rb", closefd=False) as events:
                lines = [json.loads(line) for line in events]
        finally:
            os.close(read)
        self.assertEqual(
            [
                {"progress": {"fraction": 0.5, "message": "half"}},
                {"partial": [1]},
                {"log": {"level": "info", "message": "hi"}},
            ],
            lines,
        )

    def test_events_are_marked_lines_of_stderr_where_the_host_names_a_mark(self):
        script = self.skill("progress(0.5, 'half')\nreturn 1")
        answer = run_script(script, {"input": {}}, self.work, {"OPENSKILL_EVENTS_MARK": "@mark "})
        self.assertEqual((0, 1), (answer.exit, answer.data))
        mark, event = answer.stderr.split(" ", 1)
        self.assertEqual(("@mark", {"progress": {"fraction": 0.5, "message": "half"}}), (mark, json.loads(event)))

    def test_events_without_a_usable_descriptor_do_nothing(self):
        script = self.skill("progress(0.5)\nlog('info', 'hi')\nreturn 1")
        for number in (None, "", "1", "0", "97", "-1", "x"):
            with self.subTest(number=number):
                env = {} if number is None else {"OPENSKILL_EVENTS_FD": number}
                answer = run_script(script, {"input": {}}, self.work, env)
                self.assertEqual((0, 1), (answer.exit, answer.data))


class Echo(SkillTest):
    def test_any_text_comes_back_as_it_was(self):
        for text in ("hello", "", "Grüße, 世界 👋", "a\0b", "line\nline", "x" * 100_000):
            self.assertEqual({"echoed": text}, self.ok("echo", text=text).data)

    def test_what_is_not_a_text_is_refused(self):
        for value in (1, True, None, ["x"], {"x": 1}):
            self.refused("INVALID_ARGUMENT", "echo", field="text", text=value)


SWAP = """
import os, shutil

def rename(a, b):
    while True:
        try:
            return os.rename(a, b)
        except OSError:  # the skill made a folder in the gap
            shutil.rmtree(b, ignore_errors=True)

os.mkdir("data/swap")
open("data/swap/secret.log", "w").write("INFO:root:harmless")
os.symlink("../outside", "data/link")
while True:
    rename("data/swap", "data/aside")
    rename("data/link", "data/swap")
    rename("data/swap", "data/link")
    rename("data/aside", "data/swap")
"""


class PathAttacks(SkillTest):
    """Every attack is tried through reading a file, through listing a folder and through writing a file."""

    def setUp(self):
        super().setUp()
        self.put("data/docs/inside.log", "2026-01-02T03:04:05Z INFO inside\n")
        self.put("outside/secret.log", "2026-01-02T03:04:05Z INFO secret\n")
        self.put("data-evil/secret.log", "2026-01-02T03:04:05Z INFO secret\n")

    def everywhere(self, code, path, log="secret.log"):
        answers = []
        for skill, field, input in (
            ("log_transform", "input_path", {"input_path": f"{path}/{log}"}),
            ("file_search", "root_dir", {"root_dir": path, "query": "secret"}),
            (
                "log_transform",
                "output_path",
                {"input_path": "data/docs/inside.log", "output": "file", "output_path": f"{path}/new.jsonl"},
            ),
        ):
            with self.subTest(skill=skill, field=field, path=path):
                answers.append(self.refused(code, skill, field=field, **input))
        return answers

    def test_dot_dot_is_refused_wherever_it_stands(self):
        for path in ("..", "data/..", "data/../outside", "../outside", "./data/docs/../../outside", "data/docs/.."):
            self.everywhere("FORBIDDEN_PATH", path)

    def test_an_absolute_path_is_refused_even_inside_the_root(self):
        for path in ("/etc", "/", "//etc", "/proc/self/root", f"{os.sep}data"):
            self.everywhere("FORBIDDEN_PATH", path)

    def test_a_folder_whose_name_begins_like_the_root_is_refused(self):
        for path in (
            "data-evil",
            "./data-evil",
            "data-evil/.",
            "outside",
            "DATA",
            "docs",
            ".",
            "./",
            "data\\docs",
            "~",
        ):
            self.everywhere("FORBIDDEN_PATH", path)

    def test_a_refusal_quotes_the_path_and_says_how_to_write_it(self):
        for answer in self.everywhere("FORBIDDEN_PATH", "docs"):
            self.assertIn("'docs", answer.error["message"])
            self.assertIn("paths start with 'data/'", answer.error["message"])

    def test_a_nul_character_is_refused(self):
        self.everywhere("INVALID_ARGUMENT", "data/do\0cs")

    def test_an_empty_path_and_what_is_no_text_are_refused(self):
        for value in ("", 7, None, ["data"], True):
            self.refused("INVALID_ARGUMENT", "log_transform", field="input_path", input_path=value)
            self.refused("INVALID_ARGUMENT", "file_search", field="root_dir", query="x", root_dir=value)

    def test_a_symlinked_folder_is_refused_wherever_it_leads(self):
        for name, target in (
            ("out-link", "../outside"),
            ("proc", "/proc/self/root"),
            ("up", ".."),
            ("in-link", "docs"),
            ("dangling", "nowhere"),
        ):
            (self.data / name).symlink_to(target)
            self.everywhere("FORBIDDEN_PATH", f"data/{name}")
            self.everywhere("FORBIDDEN_PATH", f"data/{name}/deeper")
        self.assertEqual(["secret.log"], os.listdir(self.work / "outside"), "nothing was written through a symlink")

    def test_a_symlinked_file_is_refused_also_inside_the_root(self):
        (self.data / "a.log").symlink_to("../outside/secret.log")
        (self.data / "b.log").symlink_to("docs/inside.log")
        for name in ("a.log", "b.log"):
            self.refused("FORBIDDEN_PATH", "log_transform", input_path=f"data/{name}")

    def test_a_search_walks_past_symlinks_and_counts_them(self):
        (self.data / "link").symlink_to("../outside")
        (self.data / "link.log").symlink_to("../outside/secret.log")
        (self.data / "loop").symlink_to(".")
        answer = self.ok("file_search", query="i")
        self.assertEqual({"data/docs/inside.log"}, {match["path"] for match in answer.data["matches"]})
        self.assertEqual(3, answer.data["stats"]["files_skipped"])

    def test_pipes_sockets_and_devices_are_refused_without_waiting(self):
        os.mkfifo(self.data / "pipe")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        here = os.getcwd()
        os.chdir(self.data)  # the name of a socket must be short
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        started = time.monotonic()
        for name in ("pipe", "sock"):
            self.refused("FORBIDDEN_PATH", "log_transform", input_path=f"data/{name}")
            self.refused("FORBIDDEN_PATH", "file_search", query="x", root_dir=f"data/{name}")
        self.assertEqual(2, self.ok("file_search", query="x").data["stats"]["files_skipped"])
        self.assertLess(time.monotonic() - started, 10)

    def test_what_is_missing_is_not_found(self):
        for path in ("data/nowhere", "data/docs/nowhere"):
            self.refused("NOT_FOUND", "log_transform", input_path=f"{path}/x.log")
            self.refused("NOT_FOUND", "file_search", query="x", root_dir=path)

    def test_a_root_that_does_not_exist_is_not_found(self):
        answer = self.call("file_search", env={"OPENSKILL_ALLOWED_ROOT": str(self.work / "gone")}, query="x")
        self.assertEqual("NOT_FOUND", answer.error["code"])

    def test_a_root_that_became_a_symlink_is_refused(self):
        self.put("elsewhere/a.log", "INFO:root:canary\n")
        self.put("elsewhere/deep/a.log", "INFO:root:canary\n")
        (self.data / "now").symlink_to(self.work / "elsewhere")
        (self.work / "alias").symlink_to("elsewhere")
        for root in ("data/now", "data/now/deep", "alias", "alias/deep"):
            env = {"OPENSKILL_ALLOWED_ROOT": str(self.work / root)}
            with self.subTest(root=root):
                for answer in (
                    self.call("file_search", env=env, query="canary"),
                    self.call("log_transform", env=env, input_path=f"{root}/a.log"),
                    self.call("log_transform", env=env, input_path=f"{root}/a.log", output="file"),
                ):
                    self.assertEqual("FORBIDDEN_PATH", answer.error["code"])
                    self.assertIn("symbolic link", answer.error["message"])
        self.assertEqual(["a.log", "deep"], sorted(os.listdir(self.work / "elsewhere")))

    def test_a_file_is_not_a_folder_and_a_folder_is_not_a_file(self):
        self.refused("INVALID_ARGUMENT", "file_search", query="x", root_dir="data/docs/inside.log")
        self.refused("INVALID_ARGUMENT", "log_transform", input_path="data/docs/inside.log/x")
        for path in ("data/docs", "data", "./data/"):
            self.refused("INVALID_ARGUMENT", "log_transform", input_path=path)

    def test_other_spellings_of_a_path_inside_are_understood(self):
        for path in ("./data/docs/inside.log", "data//docs/./inside.log", ".//data/docs/inside.log"):
            self.assertEqual(1, self.ok("log_transform", input_path=path).data["stats"]["records"])

    def test_a_path_that_is_too_long_is_refused(self):
        self.refused("INVALID_ARGUMENT", "log_transform", input_path="data/" + "x" * 300)
        self.refused("INVALID_ARGUMENT", "log_transform", input_path="data/" + "x/" * 600)

    def test_the_root_may_have_another_name_and_place(self):
        self.put("store/files/a.log", "INFO:root:found\n")
        for setting, cwd, path in (
            ("store/files", self.work, "store/files/a.log"),
            ("files", self.work / "store", "files/a.log"),
            (str(self.work / "store"), SKILLS, "store/files/a.log"),
            (".", self.work / "store", "files/a.log"),
        ):
            with self.subTest(setting=setting):
                answer = self.call("file_search", cwd=cwd, env={"OPENSKILL_ALLOWED_ROOT": setting}, query="found")
                self.assertEqual([path], [match["path"] for match in answer.data["matches"]])
                answer = self.call("log_transform", cwd=cwd, env={"OPENSKILL_ALLOWED_ROOT": setting}, input_path=path)
                self.assertEqual(1, answer.data["stats"]["records"])

    def test_a_folder_swapped_for_a_symlink_again_and_again_never_lets_the_secret_out(self):
        swapper = subprocess.Popen([sys.executable, "-c", SWAP], cwd=str(self.work))
        try:
            for _ in range(25):
                answer = self.call("log_transform", input_path="data/swap/secret.log")
                self.assertNotIn('secret"', answer.stdout.replace("secret.log", ""))
                answer = self.call(
                    "log_transform", input_path="data/docs/inside.log", output="file", output_path="data/swap/new.jsonl"
                )
            self.assertIsNone(swapper.poll(), "the attack went on to the end")
        finally:
            swapper.kill()
            swapper.wait()
        self.assertEqual(["secret.log"], os.listdir(self.work / "outside"))


class FileSearch(SkillTest):
    def paths(self, **input):
        return [match["path"] for match in self.ok("file_search", **input).data["matches"]]

    def test_a_match_has_its_path_its_line_and_the_line(self):
        self.put("data/docs/x.md", "first\r\n\u2028second\n  the needle here \r\nlast needle")
        self.assertEqual(
            [
                {"path": "data/docs/x.md", "line_no": 3, "snippet": "the needle here"},
                {"path": "data/docs/x.md", "line_no": 4, "snippet": "last needle"},
            ],
            self.ok("file_search", query="needle").data["matches"],
        )

    def test_upper_and_lower_case_are_the_same_and_no_character_is_special(self):
        self.put("data/a.txt", "OPENSKILL\nopenskill\nÄRGER\na.c*[\nabc\n")
        self.assertEqual(2, len(self.paths(query="openSkill")))
        self.assertEqual(1, len(self.paths(query="ärger")))
        self.assertEqual(1, len(self.paths(query="A.C*[")))

    def test_a_line_with_two_hits_is_one_match(self):
        self.put("data/a.txt", "x x x\nx\n")
        self.assertEqual(2, len(self.paths(query="x")))

    def test_globs_mean_what_they_mean_elsewhere(self):
        for path in ("a.md", "a.txt", "docs/b.md", "docs/deep/c.md", "docs/deep/c.txt"):
            self.put("data/" + path, "x")
        for glob, expected in (
            ("**/*.md", ["a.md", "docs/b.md", "docs/deep/c.md"]),
            ("*.md", ["a.md"]),
            ("docs/*", ["docs/b.md"]),
            ("docs/**", ["docs/b.md", "docs/deep/c.md", "docs/deep/c.txt"]),
            ("**/deep/*.t?t", ["docs/deep/c.txt"]),
            ("**/deep/**/c.[m]*", ["docs/deep/c.md"]),
            ("./docs/**/*.md", ["docs/b.md", "docs/deep/c.md"]),
            ("nothing/*", []),
        ):
            with self.subTest(glob=glob):
                self.assertEqual(["data/" + path for path in expected], self.paths(query="x", glob=glob))
        self.assertEqual(["data/docs/b.md"], self.paths(query="x", root_dir="./data/docs", glob="*.md"))

    def test_a_glob_that_cannot_work_is_refused(self):
        for glob in ("", "/etc/*", "../*", "a/../../*", "*.{md,txt}", "/", "[z-a]" + "x" * 200):
            self.refused("INVALID_ARGUMENT", "file_search", field="glob", query="x", glob=glob)

    def test_a_hostile_glob_ends_quickly(self):
        self.put("data/" + "a" * 200, "x")
        self.put("data/" + "/".join("a" * 30), "x")
        started = time.monotonic()
        self.assertEqual([], self.paths(query="x", glob="*a" * 60 + "b"))
        self.assertEqual([], self.paths(query="x", glob="**/a/" * 30 + "b"))
        self.assertLess(time.monotonic() - started, 5)

    def test_results_are_in_the_order_of_paths_and_lines(self):
        for path in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt"):
            self.put("data/" + path, "x\nx\n")
        found = [(match["path"], match["line_no"]) for match in self.ok("file_search", query="x").data["matches"]]
        self.assertEqual(sorted(found), found)
        self.assertEqual(8, len(found))

    def test_truncated_is_said_only_if_there_are_more_matches(self):
        self.put("data/a.txt", "x\nx\n")
        self.put("data/b.txt", "x\n")
        for limit, count, truncated in ((1, 1, True), (2, 2, True), (3, 3, False), (4, 3, False), (3.0, 3, False)):
            answer = self.ok("file_search", query="x", limit=limit)
            self.assertEqual((count, truncated), (len(answer.data["matches"]), answer.truncated), limit)

    def test_a_snippet_of_a_long_line_is_short_and_holds_the_hit(self):
        for before in (0, 10, 5000):
            self.put("data/a.txt", "é" * before + "needle" + "é" * 5000)
            snippet = self.ok("file_search", query="NEEDLE").data["matches"][0]["snippet"]
            self.assertEqual(240, len(snippet))
            self.assertIn("needle", snippet)

    def test_binary_files_and_files_over_five_megabytes_are_skipped_and_counted(self):
        self.put("data/binary.txt", b"needle\0needle")
        self.put("data/large.txt", b"needle\n" * 800_000)
        self.put("data/latin.txt", b"caf\xe9 needle")
        answer = self.ok("file_search", query="needle")
        self.assertEqual(
            [{"path": "data/latin.txt", "line_no": 1, "snippet": "caf\ufffd needle"}], answer.data["matches"]
        )
        self.assertEqual({"files_scanned": 1, "files_skipped": 2, "bytes_read": 11}, answer.data["stats"])

    def test_a_file_whose_name_is_not_text_is_skipped(self):
        try:
            with open(os.fsencode(self.data) + b"/bad\xff.txt", "w") as file:
                file.write("x")
        except OSError:
            self.skipTest("this file system has no such names")
        self.assertEqual(1, self.ok("file_search", query="x").data["stats"]["files_skipped"])

    def test_paths_that_come_back_can_be_passed_in_again(self):
        self.put("data/some folder/ä b.log", "INFO:root:x\n")
        path = self.paths(query="x", root_dir="./data/")[0]
        self.assertEqual(1, self.ok("log_transform", input_path=path).data["stats"]["records"])

    def test_a_walk_is_bounded_in_depth_and_number(self):
        self.put("data/" + "d/" * 40 + "deep.txt", "x")
        answer = self.ok("file_search", query="x")
        self.assertEqual(([], True), (answer.data["matches"], answer.truncated))
        shutil.rmtree(self.data / "d")
        (self.data / "many").mkdir()
        for number in range(10_050):
            (self.data / "many" / str(number)).touch()
        answer = self.ok("file_search", query="x")
        self.assertLessEqual(answer.data["stats"]["files_scanned"], 10_000)
        self.assertTrue(answer.truncated)

    def test_arguments_out_of_range_are_refused_by_name(self):
        for field, values in (
            ("query", ("", "a\nb", "a\0b", "x" * 201, 5, None)),
            ("limit", (0, 1001, -1, 1.5, "20", True, None, 10**30)),
            ("glob", (5, None)),
        ):
            for value in values:
                with self.subTest(field=field, value=value):
                    self.refused("INVALID_ARGUMENT", "file_search", field=field, **{"query": "x", field: value})


class Calculator(SkillTest):
    def results(self, numbers, *ops):
        return self.ok("calculator", numbers=numbers, ops=list(ops)).data["results"]

    def test_every_operation_gives_its_value(self):
        self.assertEqual(
            {"mean": 10.533333333333333, "median": 10.5, "min": 9.9, "max": 11.2, "sum": 31.6},
            self.results([10.5, 9.9, 11.2], "mean", "median", "min", "max", "sum"),
        )

    def test_decimals_add_up_as_they_are_written(self):
        self.assertEqual({"sum": 0.3}, self.results([0.1, 0.2], "sum"))
        self.assertEqual({"sum": 1.0}, self.results([0.1] * 10, "sum"))
        self.assertEqual({"sum": 1.0}, self.results([1e100, 1.0, -1e100], "sum"))
        self.assertEqual({"median": 0.15}, self.results([0.2, 0.1], "median"))

    def test_whole_numbers_stay_whole_where_the_result_is_whole(self):
        for op, numbers, expected in (
            ("sum", [1, 2], 3),
            ("mean", [1, 3], 2),
            ("mean", [1, 2], 1.5),
            ("median", [1, 3], 2),
            ("sum", [2**60, 1], 2**60 + 1),
            ("sum", [1, 2.0], 3.0),
            ("max", [1, 2.0], 2.0),
        ):
            value = self.results(numbers, op)[op]
            self.assertEqual((expected, type(expected)), (value, type(value)), (op, numbers))

    def test_two_numbers_are_compared(self):
        for a, b, larger, smaller, difference in (
            (10, 12, "b", "a", 2),
            (12.3, 12.1, "a", "b", 0.2),
            (5, 5.0, "equal", "equal", 0),
            (-1, 1, "b", "a", 2),
        ):
            found = self.ok("calculator", numbers=[1], ops=["sum"], compare={"a": a, "b": b}).data["comparison"]
            self.assertEqual(
                {
                    "larger": larger,
                    "smaller": smaller,
                    "larger_value": max(a, b),
                    "smaller_value": min(a, b),
                    "difference": difference,
                },
                found,
            )

    def test_without_compare_there_is_no_comparison(self):
        self.assertEqual({"results": {"sum": 1}}, self.ok("calculator", numbers=[1], ops=["sum"]).data)

    def test_a_hundred_thousand_numbers_are_allowed_and_one_more_is_not(self):
        self.assertEqual({"mean": 0.1, "median": 0.1}, self.results([0.1] * 100_000, "mean", "median"))
        self.refused("INVALID_ARGUMENT", "calculator", field="numbers", numbers=[1] * 100_001, ops=["sum"])

    def test_numbers_that_are_none_are_refused_by_their_place(self):
        for value in ("1", True, None, [1], {}, 10**400):
            with self.subTest(value=str(value)[:20]):
                self.refused("INVALID_ARGUMENT", "calculator", field="numbers[1]", numbers=[1, value], ops=["sum"])
        answer = run_script(SKILLS / "calculator.py", b'{"input":{"numbers":[1e999],"ops":["sum"]}}', self.work)
        self.assertEqual("INVALID_ARGUMENT", answer.error["code"])

    def test_a_result_too_large_for_a_number_is_refused(self):
        self.refused("INVALID_ARGUMENT", "calculator", numbers=[1.7e308, 1.7e308], ops=["sum"])
        self.assertEqual({"mean": 1.7e308}, self.results([1.7e308, 1.7e308], "mean"))
        self.refused("INVALID_ARGUMENT", "calculator", numbers=[1], ops=["sum"], compare={"a": 1.7e308, "b": -1.7e308})

    def test_other_wrong_arguments_are_refused_by_name(self):
        for field, change in (
            ("numbers", {"numbers": []}),
            ("numbers", {"numbers": 3}),
            ("ops", {"ops": []}),
            ("ops", {"ops": "sum"}),
            ("ops[0]", {"ops": ["mode"]}),
            ("ops[0]", {"ops": [None]}),
            ("compare", {"compare": [1, 2]}),
            ("compare", {"compare": None}),
            ("compare.b", {"compare": {"a": 1}}),
            ("compare.a", {"compare": {"a": "1", "b": 2}}),
            ("compare.c", {"compare": {"a": 1, "b": 2, "c": 3}}),
        ):
            with self.subTest(change=change):
                self.refused(
                    "INVALID_ARGUMENT", "calculator", field=field, **{"numbers": [1], "ops": ["sum"], **change}
                )


class LogTransform(SkillTest):
    def records(self, text, **input):
        self.put("data/a.log", text)
        return self.ok("log_transform", input_path="data/a.log", **input).data["records"]

    def test_each_usual_format_is_understood(self):
        for line, expected in (
            (
                "2026-01-02T03:04:05.678Z INFO  gateway.http: ready",
                ("2026-01-02T03:04:05.678Z", "INFO", "gateway.http", "ready"),
            ),
            (
                "2026-01-02T03:04:05+01:00 warn [worker] slow: 3 s",
                ("2026-01-02T03:04:05+01:00", "WARN", "worker", "slow: 3 s"),
            ),
            ("2026-01-02 03:04:05 ERROR failed: no disk", ("2026-01-02 03:04:05", "ERROR", None, "failed: no disk")),
            (
                "2026-01-02T03:04:05Z DEBUG openskill::relay: x",
                ("2026-01-02T03:04:05Z", "DEBUG", "openskill::relay", "x"),
            ),
            (
                "2026-01-02 03:04:05,123 - pricing.feed - WARNING - late",
                ("2026-01-02 03:04:05,123", "WARNING", "pricing.feed", "late"),
            ),
            ("[2026-01-02 03:04:05] WARN disk is full", ("2026-01-02 03:04:05", "WARN", None, "disk is full")),
            ("Jan  2 03:04:05 edge-1 sshd[12]: ERROR: gone", ("Jan  2 03:04:05", "ERROR", "sshd", "ERROR: gone")),
            (
                "Jan 12 03:04:05 edge-1 kernel: trace of nothing",
                ("Jan 12 03:04:05", None, "kernel", "trace of nothing"),
            ),
            (
                '192.0.2.7 - - [02/Jan/2026:03:04:05 +0000] "GET /x HTTP/1.1" 503 12 "-" "curl"',
                ("02/Jan/2026:03:04:05 +0000", "ERROR", "access", "GET /x 503"),
            ),
            (
                'level=info ts=2026-01-02T03:04:05Z component=sync msg="say \\"hi\\"" n=3',
                ("2026-01-02T03:04:05Z", "INFO", "sync", 'say "hi"'),
            ),
            ("WARNING:root:careful", (None, "WARNING", "root", "careful")),
        ):
            with self.subTest(line=line):
                found = self.records(line + "\r\n")[0]
                self.assertEqual(expected, tuple(found[key] for key in ("timestamp", "level", "source", "message")))

    def test_what_else_a_line_says_is_in_its_fields(self):
        self.assertEqual(
            {"client": "192.0.2.7", "method": "GET", "path": "/x", "status": 404, "bytes": 0, "user": "bob"},
            self.records('192.0.2.7 - bob [02/Jan/2026:03:04:05 +0000] "GET /x HTTP/1.1" 404 -')[0]["fields"],
        )
        self.assertEqual({"n": "3"}, self.records("level=info msg=x n=3")[0]["fields"])

    def test_a_stack_trace_belongs_to_the_record_before(self):
        trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in run\n    x()\norders.UnknownCableError: HX-09'
        found = self.records(f"2026-01-02T03:04:05Z ERROR broken\n{trace}\n2026-01-02T03:04:06Z INFO on\n")
        self.assertEqual([trace, None], [record.get("stack") for record in found])
        self.assertEqual([1, 6], [record["line_no"] for record in found])

    def test_a_stack_trace_is_bounded(self):
        found = self.records("2026-01-02T03:04:05Z ERROR broken\n" + "  at x\n" * 5000)
        self.assertEqual(100, len(found[0]["stack"].split("\n")))

    def test_every_line_is_accounted_for(self):
        text = "garbage\n  at nowhere\n\n2026-01-02T03:04:05Z INFO a\n  more\n}{\n  at nowhere\nINFO:x:b"
        self.put("data/a.log", text)
        stats = self.ok("log_transform", input_path="data/a.log").data["stats"]
        self.assertEqual(
            {
                "lines_read": 8,
                "records": 2,
                "dropped": 4,
                "truncated": 0,
                "joined": 1,
                "lines_cut": 0,
                "bytes_skipped": 0,
                "levels": {"INFO": 2},
            },
            stats,
        )

    def test_levels_are_renamed_after_parsing(self):
        found = self.records("[2026-01-02 03:04:05] warn a\n", rules={"level_map": {"Warn": "WARNING"}})
        self.assertEqual("WARNING", found[0]["level"])

    def test_the_limit_cuts_the_answer_and_says_so(self):
        self.put("data/a.log", "INFO:x:a\n" * 5)
        answer = self.ok("log_transform", input_path="data/a.log", limit=2)
        self.assertEqual(
            (2, 5, 3, True),
            (
                len(answer.data["records"]),
                answer.data["stats"]["records"],
                answer.data["stats"]["truncated"],
                answer.truncated,
            ),
        )
        self.assertFalse(self.ok("log_transform", input_path="data/a.log", limit=5).truncated)

    def test_json_lines_are_read_and_malformed_ones_are_counted(self):
        self.put(
            "data/a.jsonl",
            '{"ts":"t1","level":"warn","msg":"a","n":1}\n{"x":1}\n[]\n{"level":\n{"level":NaN}\n{"msg":1e999}\n'
            + "[" * 5000
            + '\n{"time":5,"severity":"info","event":"b"}\n',
        )
        data = self.ok("log_transform", input_path="data/a.jsonl", format="jsonl").data
        self.assertEqual(
            [
                {"line_no": 1, "timestamp": "t1", "level": "WARN", "source": None, "message": "a", "fields": {"n": 1}},
                {"line_no": 8, "timestamp": "5", "level": "INFO", "source": None, "message": "b", "fields": {}},
            ],
            data["records"],
        )
        self.assertEqual(6, data["stats"]["dropped"])

    def test_a_timestamp_regex_opens_a_format_of_its_own(self):
        line = "<1767322800> error: disk full\nnot this one\n"
        for pattern in (r"^<(\d{10})>", r"<(?P<timestamp>\d+)>", r"<(\d+)(?:\.\d+)?(?P<timestamp>)>"):
            found = self.records(line, rules={"timestamp_regex": pattern})
            self.assertEqual(1, len(found))
            self.assertEqual(("ERROR", "disk full"), (found[0]["level"], found[0]["message"]))

    def test_a_bad_timestamp_regex_is_refused(self):
        self.put("data/a.log", "x\n")
        for pattern in (
            "",
            "(",
            r"\d+",
            "(a)(b)",
            "x" * 201,
            "(a+)+b",
            "(a|ab)*(c)",
            r"((?:\w+\s?)*)$",
            "((a*)*)",
            "(x(?:y{1,9}){9})",
            "(a{99999999999999999999})",
            5,
            None,
        ):
            with self.subTest(pattern=pattern):
                self.refused(
                    "INVALID_ARGUMENT",
                    "log_transform",
                    field="rules.timestamp_regex",
                    input_path="data/a.log",
                    rules={"timestamp_regex": pattern},
                )

    def test_a_slow_timestamp_regex_is_stopped(self):
        self.put("data/a.log", ("1" * 8000 + "\n") * 50)
        started = time.monotonic()
        self.refused(
            "INVALID_ARGUMENT",
            "log_transform",
            field="rules.timestamp_regex",
            input_path="data/a.log",
            rules={"timestamp_regex": r"(\d*\d*\d*\d*\d*x)"},
        )
        self.assertLess(time.monotonic() - started, 60)

    def test_a_very_long_line_is_cut_and_counted(self):
        self.put("data/a.log", "2026-01-02T03:04:05Z INFO " + "x" * 100_000)
        data = self.ok("log_transform", input_path="data/a.log").data
        self.assertEqual(1, data["stats"]["lines_cut"])
        self.assertLess(len(data["records"][0]["message"]), 8192)

    def test_of_a_file_over_five_megabytes_the_first_five_are_read_and_the_rest_is_flagged(self):
        size = self.put("data/a.log", "2026-01-02T03:04:05Z INFO a line of a large file\n" * 120_000).stat().st_size
        answer = self.ok("log_transform", input_path="data/a.log", limit=1)
        self.assertEqual(size - 5 * 1024 * 1024, answer.data["stats"]["bytes_skipped"])
        self.assertEqual(0, answer.data["stats"]["dropped"])
        self.assertTrue(answer.truncated)

    def test_bytes_that_are_not_text_do_no_harm(self):
        self.assertEqual("caf\ufffd", self.records(b"INFO:x:caf\xe9\n\xff\xfe\0\n")[0]["message"])

    def test_an_empty_file_has_no_records(self):
        self.assertEqual([], self.records(""))

    def write(self, **input):
        return self.call("log_transform", input_path="data/a.log", output="file", **input)

    def test_all_records_go_to_a_file_in_the_folder_out(self):
        self.put("data/a.log", "INFO:x:ä\n" * 300)
        answer = self.write(limit=2)
        self.assertEqual(
            ("data/out/a.jsonl", [], 0),
            (answer.data["output_path"], answer.data["records"], answer.data["stats"]["truncated"]),
        )
        self.assertFalse(answer.truncated)
        lines = (self.data / "out" / "a.jsonl").read_text("utf-8").splitlines()
        self.assertEqual((300, "ä"), (len(lines), json.loads(lines[0])["message"]))
        self.assertEqual(["a.jsonl"], os.listdir(self.data / "out"), "no temporary file is left")

    def test_a_csv_file_can_be_read_by_other_programs(self):
        self.put("data/a.log", 'level=info msg="a, \\"b\\"" n=1\nERROR:x:c\n  at y\n')
        self.assertEqual("data/out/a.csv", self.write(output_format="csv").data["output_path"])
        content = (self.data / "out" / "a.csv").read_bytes()
        rows = list(csv.DictReader(content.decode("utf-8").splitlines(keepends=True)))
        self.assertIn(b'"a, ""b"""', content)
        self.assertTrue(content.endswith(b"\r\n"))
        self.assertEqual(['a, "b"', "c"], [row["message"] for row in rows])
        self.assertEqual(('{"n": "1"}', "  at y"), (rows[0]["fields"], rows[1]["stack"]))

    def test_a_file_in_out_is_replaced_and_elsewhere_nothing_is(self):
        self.put("data/a.log", "INFO:x:new\n")
        self.put("data/out/a.jsonl", "old")
        self.put("data/kept.jsonl", "old")
        self.assertEqual(0, self.write().exit)
        self.assertIn("new", (self.data / "out" / "a.jsonl").read_text())
        self.refused(
            "INVALID_ARGUMENT",
            "log_transform",
            field="output_path",
            input_path="data/a.log",
            output="file",
            output_path="data/kept.jsonl",
        )
        self.assertEqual("old", (self.data / "kept.jsonl").read_text())
        self.assertEqual("data/new/b.jsonl", self.write(output_path="./data/new/b.jsonl").data["output_path"])

    def test_output_through_a_symlink_or_over_a_pipe_is_refused(self):
        self.put("data/a.log", "INFO:x:new\n")
        victim = self.put("outside/victim.jsonl", "old")
        (self.data / "out").mkdir()
        (self.data / "out" / "a.jsonl").symlink_to(victim)
        os.mkfifo(self.data / "out" / "b.jsonl")
        (self.data / "out" / "c.jsonl").mkdir()
        for path, code in (
            (None, "FORBIDDEN_PATH"),
            ("data/out/b.jsonl", "FORBIDDEN_PATH"),
            ("data/out/c.jsonl", "INVALID_ARGUMENT"),
        ):
            more = {"output_path": path} if path else {}
            self.refused(code, "log_transform", field="output_path", input_path="data/a.log", output="file", **more)
        self.assertEqual("old", victim.read_text())
        self.assertEqual(
            ["a.jsonl", "b.jsonl", "c.jsonl"], sorted(os.listdir(self.data / "out")), "no temporary file is left"
        )

    def test_an_output_folder_that_is_a_symlink_is_refused(self):
        self.put("data/a.log", "INFO:x:new\n")
        (self.work / "outside").mkdir()
        (self.data / "out").symlink_to("../outside")
        self.refused("FORBIDDEN_PATH", "log_transform", input_path="data/a.log", output="file")
        self.assertEqual([], os.listdir(self.work / "outside"))

    def test_two_writers_at_once_leave_one_whole_file(self):
        self.put("data/a.log", "INFO:x:first file\n" * 20_000)
        self.put("data/b/a.log", "INFO:x:second file\n" * 20_000)
        env = {**os.environ, "OPENSKILL_ALLOWED_ROOT": str(self.data)}
        writers = []
        for path in ("data/a.log", "data/b/a.log") * 3:
            writer = subprocess.Popen(
                [sys.executable, str(SKILLS / "log_transform.py")],
                cwd=str(self.work),
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            writer.stdin.write(json.dumps({"input": {"input_path": path, "output": "file"}}).encode())
            writer.stdin.close()
            writers.append(writer)
        self.assertEqual([0] * 6, [writer.wait() for writer in writers])
        lines = (self.data / "out" / "a.jsonl").read_text("utf-8").splitlines()
        messages = [json.loads(line)["message"] for line in lines]
        self.assertEqual((20_000, 1), (len(messages), len(set(messages))))
        self.assertEqual(["a.jsonl"], os.listdir(self.data / "out"))

    def test_the_input_is_never_overwritten(self):
        self.put("data/out/a.jsonl", '{"msg":"a"}\n')
        self.refused(
            "INVALID_ARGUMENT",
            "log_transform",
            field="output_path",
            input_path="data/out/a.jsonl",
            format="jsonl",
            output="file",
        )
        self.assertEqual('{"msg":"a"}\n', (self.data / "out" / "a.jsonl").read_text())

    def test_wrong_arguments_are_refused_by_name(self):
        self.put("data/a.log", "x\n")
        for field, change in (
            ("format", {"format": "xml"}),
            ("output", {"output": "screen"}),
            ("output_path", {"output_path": "data/out/x.jsonl"}),
            ("limit", {"limit": 10_001}),
            ("limit", {"limit": True}),
            ("rules", {"rules": []}),
            ("rules.other", {"rules": {"other": 1}}),
            ("rules.level_map", {"rules": {"level_map": []}}),
            ("rules.level_map.A", {"rules": {"level_map": {"A": 1}}}),
            ("output_path", {"output": "file", "output_path": "data/x.txt"}),
            ("output_path", {"output": "file", "output_format": "csv", "output_path": "data/x.jsonl"}),
        ):
            with self.subTest(change=change):
                self.refused("INVALID_ARGUMENT", "log_transform", field=field, input_path="data/a.log", **change)


if __name__ == "__main__":
    unittest.main()
