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
import time
import unittest

HOST = pathlib.Path(__file__).resolve().parents[2] / "src/sessions/host"
PARTS = [str(HOST / f"{name}.py") for name in ("session", "artifacts", "errors", "hosting")]
START = """
import os, sys
exec(compile("".join(open(part).read() for part in sys.argv[3:]), "<host>", "exec"))
os.chdir(sys.argv[2])
Session(int(sys.argv[1]), sys.argv[2]).serve()
"""
# Draws as matplotlib.pyplot does, for a machine without it. A file, so that it is imported.
PYPLOT = '''
import os, sys
os.makedirs(".lib/matplotlib")
open(".lib/matplotlib/__init__.py", "w").close()
open(".lib/matplotlib/pyplot.py", "w").write("""
figures = {}
class Figure:
    def __init__(self): self.drawn = []
    def savefig(self, file, format):
        if "bad" in self.drawn: raise MemoryError("too large")
        file.write((format + str(self.drawn)).encode())
def figure(number=None):
    return figures.setdefault(number or max(figures, default=0) + 1, Figure())
def plot(line): figure(max(figures, default=None)).drawn.append(line)
def get_fignums(): return sorted(figures)
def close(number): figures.pop(number, None)
def show(): pass
""")
sys.path.insert(0, ".lib")
import matplotlib.pyplot as plt
'''


class Session:
    """A host, and the worker's end of its stream."""

    def __init__(self, before=""):
        self.folder = tempfile.TemporaryDirectory()
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(120)
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + START, str(theirs.fileno()), self.folder.name, *PARTS],
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

    def test_a_signal_stops_an_exception_whose_text_never_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            asked = os.path.join(folder, "asked")
            self.session.begin(f"class Rude(Exception):\n    def __str__(self):\n        open({asked!r}, 'w').close()\n"
                               "        while True: pass\nraise Rude()")
            while not os.path.exists(asked):
                time.sleep(0.01)
            os.kill(self.session.process.pid, signal.SIGINT)
            self.assertEqual(self.session.end()[0]["error"]["name"], "KeyboardInterrupt")

    def test_a_cell_has_begun_once_the_streams_of_the_last_one_are_gone(self):
        # Their finalizers would swallow the exception of a signal.
        with tempfile.TemporaryDirectory() as folder:
            dropped = os.path.join(folder, "dropped")
            self.run_cell("import sys, time\nclass Stream:\n    def __del__(self):\n"
                          f"        time.sleep(0.1)\n        open({dropped!r}, 'w').close()\nsys.stdout = Stream()")
            self.session.begin("1")
            self.assertTrue(os.path.exists(dropped))
            self.session.end()

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
        ended = self.run_cell("for name in ('out/a.txt', 'out-a.txt', 'out/b', 'out-b'): open(name, 'w').write('newer')")
        self.assertEqual([it["name"] for it in ended["artifacts"]], ["out-a.txt", "out-b", "out-a-2.txt", "out-b-2"])
        ended = self.run_cell("open('large', 'wb').truncate(11 * 1024 * 1024); None")
        self.assertEqual((ended["artifacts"], len(ended["notes"])), ([], 1))
        self.assertIn("larger", ended["notes"][0])

    def drawn(self, code):
        """What the pictures of a cell show, and its notes."""
        self.session.begin(code)
        ended, events = self.session.end()
        self.assertEqual(ended["return_code"], 0, ended["error"])
        parts = [event["artifact"] for event in events]
        self.assertEqual([it["name"] for it in parts], [f"figure-{ended['cell']}-{at}.png" for at in self.places(parts)])
        return [base64.b64decode(it["data"]).decode() for it in parts], ended["notes"]

    @staticmethod
    def places(parts):
        return [int(it["name"].rpartition("-")[2].partition(".")[0]) for it in parts]

    def test_open_figures_become_artifacts_once(self):
        self.assertEqual(self.drawn(PYPLOT + "plt.plot(1); plt.figure(); plt.plot(2)"), (["png[1]", "png[2]"], []))
        self.assertEqual(self.drawn("plt.get_fignums() or print(1)"), ([], []))

    def test_a_figure_that_cannot_be_drawn_keeps_no_other_from_it(self):
        pictures, notes = self.drawn(PYPLOT + "plt.plot('bad'); plt.figure(); plt.plot(2)")
        self.assertEqual((pictures, notes), (["png[2]"], ["'figure-1-1.png' could not be drawn: MemoryError: too large"]))
        self.assertEqual(self.drawn("plt.plot(3)"), (["png[3]"], []))
        for code, word in [("plt.plot(4)\ndraw, plt.figure = plt.figure, None", "'figure-3-1.png' could not be drawn: TypeError"),
                           ("plt.figure, listed, plt.get_fignums = draw, plt.get_fignums, None", "could not be listed: TypeError")]:
            pictures, notes = self.drawn(code)
            self.assertEqual((pictures, len(notes)), ([], 1))
            self.assertIn(word, notes[0])
        self.assertEqual(self.drawn("plt.get_fignums = listed; plt.plot(5)"), (["png[5]"], []))

    def test_show_draws_what_is_open_and_closes_it(self):
        loop = "for n in range(3): plt.plot(n); plt.show(block=False)\nplt.plot('last')"
        self.assertEqual(self.drawn(PYPLOT + loop), (["png[0]", "png[1]", "png[2]", "png['last']"], []))
        self.assertEqual(self.drawn("import importlib; importlib.reload(plt); plt.plot(1); plt.show(); plt.show(); plt.plot(2)"),
                         (["png[1]", "png[2]"], []))
        threaded = "import threading, os\nplt.plot(3)\nt = threading.Thread(target=plt.show); t.start(); t.join()"
        self.assertEqual(self.drawn(threaded), (["png[3]"], []))
        self.assertEqual(self.drawn("plt.plot(4)\npid = os.fork()\nplt.show() if pid == 0 else os.waitpid(pid, 0); None"), (["png[4]"], []))

    def test_a_module_that_was_imported_before_the_session_gets_its_show_too(self):
        before = "import sys, types; sys.modules['matplotlib.pyplot'] = types.ModuleType('matplotlib.pyplot')"
        with Session(before) as session:
            self.assertIn("function", session.run("import sys; sys.modules['matplotlib.pyplot'].show")["result"])

    def test_whatever_is_left_out_has_a_note(self):
        pictures, notes = self.drawn(PYPLOT + "for n in range(70): plt.figure()")
        self.assertEqual((len(pictures), [note.partition(" ")[0] for note in notes]), (64, [f"'figure-1-{n}.png'" for n in range(65, 71)]))
        self.assertEqual(self.drawn("plt.get_fignums() or None"), ([], []))
        notes = self.run_cell("for n in range(40): open(f'{n}.bin', 'wb').truncate(11 * 1024 * 1024)")["notes"]
        self.assertEqual((len(notes), notes[-1]), (16, "25 more notes are not listed"))
        ended = self.run_cell("for n in range(4200): open(f'{n}.bin', 'w').close()")
        self.assertTrue(any("4096 entries" in note for note in ended["notes"]), ended["notes"])

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
        self.assertIn("'l?' is not an artifact", ended["notes"][0])
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

    def test_a_cell_begins_with_streams_that_work_whatever_became_of_the_last_ones(self):
        spoils = [
            "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
            "kept = sys.stdout = io.TextIOWrapper(sys.stdout.buffer)",
            "kept = None",
            "b = sys.stdout.detach(); sys.stdout = io.TextIOWrapper(b, line_buffering=True)",
            "sys.stdout = os.fdopen(sys.stdout.fileno(), 'w', 1)",
            "kept = os.fdopen(1, 'w')",
            "kept = None",
            "os.dup2(os.open('/dev/null', os.O_WRONLY), 1); os.close(2); os.close(0)",
            "sys.stdout.buffer.detach(); sys.stdin.detach()",
            "sys.stdout.buffer.raw.close(); sys.__stdout__ = None",
            "del sys.stdout, sys.stderr, sys.stdin",
            "sys.stdout.reconfigure(encoding='ascii', errors='strict')",
            "os.set_blocking(1, False)",
        ]
        self.run_cell("import io, os, sys")
        for number, code in enumerate(spoils):
            self.run_cell(f"{code}\nNone")
            ended = self.run_cell(f"print('\u00fc{number}'); print({number}, file=sys.stderr); sys.__stdout__.write('.\\n'); sys.stdin.read()")
            self.assertEqual((ended["error"], ended["result"]), (None, "''"), code)
        expected = "".join(f"\u00fc{number}\n.\n" for number in range(len(spoils)))
        self.assertEqual(self.session.printed(), (expected, "".join(f"{number}\n" for number in range(len(spoils)))))

    def test_what_keeps_a_stream_of_an_earlier_cell_still_prints(self):
        self.run_cell("import io, logging, sys\nout = sys.stdout\nlogging.basicConfig(stream=out, format='%(message)s')")
        self.run_cell("sys.stdout = io.TextIOWrapper(sys.stdout.buffer); print('wrapped')")
        self.run_cell("logging.warning('logged'); out.write('half a line'); None")
        self.assertEqual(self.session.printed(), ("wrapped\nlogged\nhalf a line", ""))

    def test_signals_between_two_cells_run_no_handler_of_the_code(self):
        pid = self.session.process.pid
        self.run_cell("import os, signal, time\ndef h(s, f): raise TimeoutError('over')\nsignal.signal(signal.SIGALRM, h); data = [1]")
        for _ in range(3):
            os.kill(pid, signal.SIGALRM)
            self.assertEqual(self.run_cell("data, signal.getsignal(signal.SIGALRM) is h")["result"], "([1], True)")
        error = self.run_cell("os.kill(os.getpid(), signal.SIGALRM)")["error"]
        self.assertEqual((error["name"], error["message"]), ("TimeoutError", "over"))
        self.run_cell("signal.signal(signal.SIGALRM, signal.SIG_IGN); None")
        self.assertEqual(self.run_cell("signal.getsignal(signal.SIGALRM) is signal.SIG_IGN")["result"], "True")

    def test_code_may_begin_with_a_byte_order_mark(self):
        self.assertEqual(self.run_cell("\ufeff1 + 1")["result"], "2")
        self.assertIn("    1 / 0\n", self.run_cell("\ufeff1 / 0")["error"]["traceback"])

    def test_code_that_closes_all_descriptors_ends_its_process(self):
        self.session.begin("import os\nos.closerange(0, 256)")
        self.assertEqual(self.session.end()[0], None)


if __name__ == "__main__":
    unittest.main()
