"""The Python side of sessions, worker/src/sessions/host: played by its worker, without a jail."""

import base64
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HOST = pathlib.Path(__file__).resolve().parents[2] / "src/sessions/host"
PARTS = [str(HOST / f"{name}.py") for name in ("session", "artifacts", "errors", "hosting")]
START = """
import os, sys
exec(compile("".join(open(part).read() for part in sys.argv[3:]), "<host>", "exec"))
os.chdir(sys.argv[2])
Session(int(sys.argv[1]), sys.argv[2]).serve()
"""
# A module that draws as matplotlib.pyplot does, for a machine without it.
PYPLOT = """
import sys, types
class Figure:
    def savefig(self, file, format):
        file.write(b"PNG " + format.encode())
pyplot = types.ModuleType("matplotlib.pyplot")
pyplot.open = [1, 2]
pyplot.get_fignums = lambda: list(pyplot.open)
pyplot.figure = lambda number: Figure()
pyplot.close = lambda which: pyplot.open.clear()
sys.modules["matplotlib.pyplot"] = pyplot
"""


class Session:
    """A host, and the worker's end of its stream."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(120)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs.fileno()), self.folder.name, *PARTS],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self.lines = self.ours.makefile("rb")
        self.cells = 0
        assert self.read() == {"session": {"ready": True}}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.shutdown(socket.SHUT_RDWR)
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.ours.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()

    def read(self):
        line = b"\n"
        # An empty line ends one that an interrupt left half written.
        while line == b"\n":
            line = self.lines.readline()
        return json.loads(line) if line else None

    def write(self, message):
        self.ours.sendall(json.dumps(message).encode() + b"\n")

    def begin(self, code):
        self.cells += 1
        self.write({"run": {"cell": self.cells, "code": code}})
        assert self.read() == {"session": {"began": self.cells}}

    def end(self):
        """The end of the cell, and the events before it. None: the process hung up."""
        events = []
        while True:
            message = self.read()
            if message is None:
                return None, events
            if "session" in message:
                ended = message["session"]["ended"]
                assert ended["cell"] == self.cells
                return ended, events
            events.append(message)

    def run(self, code):
        self.begin(code)
        return self.end()[0]

    def printed(self):
        """All that was printed until its process ended."""
        self.ours.shutdown(socket.SHUT_WR)
        return self.process.stdout.read().decode(), self.process.stderr.read().decode()


class Cells(unittest.TestCase):
    def setUp(self):
        self.session = self.enterContext(Session()) if hasattr(self, "enterContext") else Session().__enter__()
        if not hasattr(self, "enterContext"):
            self.addCleanup(self.session.__exit__)
        self.run_cell = self.session.run

    def test_state_is_kept_and_the_last_expression_shown(self):
        self.assertEqual(self.run_cell("a = 20\ndef double(x):\n    return 2 * x")["result"], None)
        ended = self.run_cell("double(a) + 2")
        self.assertEqual((ended["return_code"], ended["result"], ended["error"]), (0, "42", None))
        self.assertEqual(self.run_cell("_ + 1")["result"], "43")
        self.assertEqual(self.run_cell("print('x')")["result"], None)
        self.assertEqual(self.run_cell("__name__")["result"], "'__main__'")
        self.assertEqual(self.session.printed(), ("x\n", ""))

    def test_an_error_has_the_cells_own_lines_alone(self):
        self.run_cell("def divide(x):\n    return 1 / x")
        error = self.run_cell("value = 0\ndivide(value)")["error"]
        self.assertEqual((error["name"], error["message"]), ("ZeroDivisionError", "division by zero"))
        self.assertIn('File "<cell 2>", line 2, in <module>\n    divide(value)\n', error["traceback"])
        self.assertIn('File "<cell 1>", line 2, in divide\n    return 1 / x', error["traceback"])
        self.assertNotIn("<host>", error["traceback"])
        error = self.run_cell("a = (1")["error"]
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn('File "<cell 3>", line 1\n    a = (1\n', error["traceback"])
        error = self.run_cell("import asyncio\nasync def f():\n    raise KeyError('k')\nawait f()")["error"]
        self.assertEqual(error["name"], "KeyError")
        self.assertIn('File "<cell 4>", line 4, in <module>', error["traceback"])
        self.assertNotIn("<host>", error["traceback"])

    def test_await_works_at_the_top_and_its_loop_stays(self):
        self.run_cell("import asyncio\nqueue = asyncio.Queue()\nawait queue.put(7)")
        self.assertEqual(self.run_cell("await queue.get()")["result"], "7")
        self.assertEqual(self.run_cell("asyncio.run(asyncio.sleep(0, 'own'))")["result"], "'own'")
        self.assertEqual(self.run_cell("await asyncio.sleep(0, 'again')")["result"], "'again'")

    def test_an_exit_ends_the_cell_and_not_the_session(self):
        self.assertEqual(self.run_cell("import sys; sys.exit()")["return_code"], 0)
        ended = self.run_cell("sys.exit(3)")
        self.assertEqual((ended["return_code"], ended["error"]["name"], ended["error"]["message"]), (1, "SystemExit", "3"))
        self.assertEqual(self.run_cell("1")["result"], "1")

    def test_a_signal_stops_code_and_keeps_state_and_hits_nothing_else(self):
        self.run_cell("kept = 1")
        for code in ["while True: pass", "import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)",
                     "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
                     "class Rude(Exception):\n    def __str__(self):\n        while True: pass\nraise Rude()"]:
            self.session.begin(code)
            os.kill(self.session.process.pid, signal.SIGINT)
            ended, _ = self.session.end()
            self.assertEqual((ended["return_code"], ended["error"]["name"]), (1, "KeyboardInterrupt"), code)
        # Between two cells it is ignored.
        os.kill(self.session.process.pid, signal.SIGINT)
        self.assertEqual(self.run_cell("kept")["result"], "1")

    def test_input_asks_and_takes_what_the_user_says(self):
        self.session.begin("name = input('Who? ')\nname * 2")
        question = self.session.read()["input_required"]
        self.assertEqual((question["message"], question["schema"]["required"]), ("Who? ", ["text"]))
        self.session.write({"answer": {"id": "another", "action": "accept", "content": {"text": "no"}}})
        self.session.write({"answer": {"id": question["id"], "action": "accept", "content": {"text": "ada"}}})
        self.assertEqual(self.session.end()[0]["result"], "'adaada'")
        for answer, word in [({"action": "decline"}, "decline"), ({"action": "unavailable", "reason": "nobody"}, "nobody")]:
            self.session.begin("input()")
            question = self.session.read()["input_required"]
            self.session.write({"answer": {"id": question["id"], **answer}})
            error = self.session.end()[0]["error"]
            self.assertEqual(error["name"], "EOFError")
            self.assertIn(word, error["message"])
            self.assertNotIn("in ask", error["traceback"])
        error = self.run_cell("import threading\nfound = []\ndef ask():\n    try: input()\n    except EOFError as e: found.append(str(e))\n"
                              "t = threading.Thread(target=ask); t.start(); t.join(); found[0]")
        self.assertIn("main thread", error["result"])

    def test_an_interrupted_question_does_not_answer_the_next_one(self):
        self.session.begin("input('first')")
        first = self.session.read()["input_required"]
        os.kill(self.session.process.pid, signal.SIGINT)
        self.assertEqual(self.session.end()[0]["error"]["name"], "KeyboardInterrupt")
        self.session.write({"answer": {"id": first["id"], "action": "accept", "content": {"text": "late"}}})
        self.session.begin("input('second')")
        second = self.session.read()["input_required"]
        self.session.write({"answer": {"id": second["id"], "action": "accept", "content": {"text": "mine"}}})
        self.assertEqual(self.session.end()[0]["result"], "'mine'")

    def test_files_become_artifacts_when_they_are_written(self):
        self.session.begin("import os\nos.mkdir('out')\nopen('out/a.txt', 'w').write('hello')\nopen('.hidden', 'w').close()\n"
                           "os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')\nopen('b.bin', 'wb').write(bytes(100_000)); None")
        ended, events = self.session.end()
        self.assertEqual([(it["name"], it["size_bytes"]) for it in ended["artifacts"]], [("b.bin", 100_000), ("out-a.txt", 5)])
        parts = [event["artifact"] for event in events]
        told = {it["id"]: b"".join(base64.b64decode(part["data"]) for part in parts if part["id"] == it["id"]) for it in parts}
        self.assertEqual(sorted(map(len, told.values())), [5, 100_000])
        self.assertTrue(all(len(json.dumps(event)) < 64 * 1024 for event in events))
        self.assertEqual(self.run_cell("1")["artifacts"], [])
        self.assertEqual([it["name"] for it in self.run_cell("open('out/a.txt', 'w').write('new'); None")["artifacts"]], ["out-a.txt"])
        ended = self.run_cell("open('large', 'wb').truncate(11 * 1024 * 1024); None")
        self.assertEqual((ended["artifacts"], len(ended["notes"])), ([], 1))
        self.assertIn("larger", ended["notes"][0])

    def test_open_figures_become_artifacts_once(self):
        self.assertEqual([it["name"] for it in self.run_cell(PYPLOT)["artifacts"]], ["figure-1-1.png", "figure-1-2.png"])
        self.assertEqual(self.run_cell("1")["artifacts"], [])
        ended = self.run_cell("pyplot.open = [1]\npyplot.figure = None")
        self.assertIn("figures could not be drawn", ended["notes"][0])

    def test_what_is_told_is_bounded(self):
        ended = self.run_cell("'x' * 10_000_000")
        self.assertLess(len(ended["result"]), 20_000)
        ended = self.run_cell("def f(): f()\nf()")
        self.assertEqual(ended["error"]["name"], "RecursionError")
        self.assertLess(len(json.dumps(ended)), 100_000)
        ended = self.run_cell("raise ValueError('\\0' * 10_000_000)")
        self.assertLess(len(json.dumps(ended)), 300_000)

    def test_text_that_is_no_utf8_is_told_as_text(self):
        def whole(message):
            json.dumps(message, ensure_ascii=False).encode()  # raises if half a character is left
            return message

        self.assertEqual(whole(self.run_cell("raise ValueError('a\\udc80b')"))["error"]["message"], "a?b")
        self.assertEqual(whole(self.run_cell("class Odd:\n    def __repr__(self): return '\\ud800'\nOdd()"))["result"], "?")
        self.session.begin("open(b'caf\\xe9.csv', 'w').close()\nopen(b'l\\xe9', 'wb').truncate(11 * 1024 * 1024); None")
        ended, events = whole(self.session.end())
        self.assertEqual(([it["name"] for it in ended["artifacts"]], events[0]["artifact"]["name"]), (["caf?.csv"], "caf?.csv"))
        self.assertIn("'l?' is no artifact", ended["notes"][0])
        self.session.begin("input('\\udc80')")
        question = whole(self.session.read())["input_required"]
        self.session.write({"answer": {"id": question["id"], "action": "decline"}})
        self.assertEqual((question["message"], self.session.end()[0]["return_code"]), ("?", 1))

    def test_code_that_meddles_with_its_interpreter_harms_itself_alone(self):
        for code in ["import builtins\nbuiltins.print = None", "import json\njson.dumps = json.loads = None",
                     "import sys\nsys.stdout = sys.stderr = None", "sys.stdout = 7", "del builtins.repr",
                     "import os\nos.read = os.write = os.scandir = None", "import linecache\nlinecache.cache = None",
                     "sys.modules.clear()", "import signal", "__builtins__ = None", "import sys; sys.setrecursionlimit(50)"]:
            self.assertIsNotNone(self.run_cell(code), code)

    def test_a_process_that_the_code_forks_does_not_go_on_with_the_session(self):
        ended = self.run_cell("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\npid > 0")
        self.assertEqual(ended["result"], "True")
        self.assertEqual(self.run_cell("1 + 1")["result"], "2")

    def test_a_closed_stream_is_opened_again_for_the_next_cell(self):
        self.run_cell("import sys\nsys.stdout.close()")
        self.assertEqual(self.run_cell("print('again')")["return_code"], 0)
        self.assertEqual(self.session.printed()[0], "again\n")

    def test_code_that_closes_all_descriptors_ends_its_process(self):
        self.session.begin("import os\nos.closerange(0, 256)")
        self.assertEqual(self.session.end()[0], None)


if __name__ == "__main__":
    unittest.main()
