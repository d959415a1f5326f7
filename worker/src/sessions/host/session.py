"""The process of a session: runs cells of code, one after the other, and keeps what they define. Part of the program of the fork server
of sessions, after server.py and before the other files of this folder; without server.py they stand on their own, so that tests can
load them.

It talks with the worker over one stream, in lines of JSON, as worker/src/sessions/line.rs has them:

    worker  {"run": {"cell": 1, "code": "..."}}
            {"answer": {"id": "input-1", "action": "accept", "content": {"text": "..."}}}
    host    {"session": {"ready": true}}
            {"session": {"began": 1}}                       from here on a signal stops the cell
            {"session": {"ended": {"cell": 1, "return_code": 0, ...}}}
            event lines, as every skill writes them: artifact, input_required

The code is not trusted, and may replace anything in this interpreter, this text included. So nothing here is a wall: the worker holds
the deadline, and reads no more than it has bounds for.
"""

import ast
import asyncio
import builtins
import json
import linecache
import os
import sys
import types
from _io import BufferedWriter, FileIO, TextIOWrapper
# Stands in for the code's signal handlers: it takes two arguments, does nothing, and runs no Python code.
from _operator import is_ as no_handler
from _signal import NSIG, SIG_IGN, SIGINT, default_int_handler, getsignal
from _signal import signal as set_signal
from _thread import get_ident
from os import _exit, dup, dup2, getpid, read, set_blocking, write

# How many characters of a result are told; of a message, a name, a question.
MOST_RESULT = 16 * 1024
MOST_MESSAGE = 2 * 1024
# Sources that tracebacks can still quote.
MOST_SOURCES, MOST_SOURCE_CHARACTERS = 100, 1024 * 1024
CO_COROUTINE = 0x80
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CELL = "<cell "

# What the code may replace in its modules.
for own_name in "callable enumerate getattr isinstance len list open range repr setattr sorted str sum type".split():
    globals()[own_name] = getattr(builtins, own_name)
dumps, loads = json.dumps, json.loads


class Output(BufferedWriter):
    """Stays open: what the code wraps around it closes it, at the latest when it is dropped."""

    def close(self):
        self.flush()


class Session:
    """What cells share: their module, their streams, their event loop, and their working folder."""

    def __init__(self, descriptor, folder):
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)
        self.waiting, self.unfinished = bytearray(), False
        self.pid, self.thread = getpid(), get_ident()
        self.folder = folder
        self.main = types.ModuleType("__main__")
        self.main.__builtins__ = builtins
        sys.modules["__main__"] = self.main
        self.loop = None
        self.sources = []
        self.questions = 0
        self.handlers = {}
        self.descriptors = [dup(number) for number in range(3)]
        self.outputs = {}
        self.artifacts = None
        builtins.input = self.ask
        # matplotlib sets attributes of the function.
        replace_show(lambda *_, **__: self.show())
        set_signal(SIGINT, SIG_IGN)

    def serve(self):
        """Runs cells until the worker hangs up."""
        self.send({"session": {"ready": True}})
        while True:
            line = self.read_line()
            if line is None:
                return
            run = loads(line).get("run")
            # Else it is a late answer, to a question of a cell that was interrupted.
            if run:
                self.run(run["cell"], run["code"])

    def run(self, number, code):
        ended = {"cell": number, "return_code": 1, "result": None, "error": None, "artifacts": [], "notes": []}
        self.interruptible(lambda: self.work(number, code, ended), ended)
        self.send({"session": {"ended": ended}})

    def interruptible(self, work, ended):
        """Does what the worker may interrupt. Afterwards signals are ignored: none that comes late hits the next cell."""
        try:
            try:
                set_signal(SIGINT, default_int_handler)
                work()
            finally:
                set_signal(SIGINT, SIG_IGN)
        except BaseException as error:
            # Between two steps, or in one that the code had its hands in.
            ended["return_code"] = 1
            if ended["error"] is None:
                ended["error"] = {"name": type(error).__name__, "message": "", "traceback": ""}
        while True:
            try:
                set_signal(SIGINT, SIG_IGN)
                self.remove_handlers()
                return
            except BaseException:
                pass

    def remove_handlers(self):
        """Takes the code's signal handlers away until its next cell: between cells, nothing catches what they raise."""
        for number in range(1, NSIG):
            handler = getsignal(number)
            if number != SIGINT and callable(handler) and handler is not no_handler:
                self.handlers[number] = handler
                set_signal(number, no_handler)

    def restore_handlers(self):
        for number in list(self.handlers):
            set_signal(number, self.handlers[number])
            del self.handlers[number]

    def work(self, number, code, ended):
        try:
            # Before a signal may come: dropping the streams of the last cell runs finalizers, which swallow what a handler raises.
            self.restore_streams()
        finally:
            self.send({"session": {"began": number}})
        self.artifacts = Artifacts(self.send, number, ended)
        before, _ = listing(self.folder)
        try:
            self.execute(number, code, ended)
        finally:
            self.flush()
            if getpid() != self.pid:
                # A process that the code forked came to the end of the cell.
                _exit(ended["return_code"])
        self.remove_handlers()
        self.artifacts.figures()
        self.artifacts.files(self.folder, before)

    def execute(self, number, code, ended):
        try:
            self.restore_handlers()
            code = code.removeprefix("\ufeff")
            name = self.remember(number, code)
            body, last = cell_code(code, name)
            value = self.evaluate(body)
            if last is not None:
                value = self.evaluate(last)
                if value is not None:
                    self.main._ = value
                    ended["result"] = cut(repr(value), MOST_RESULT)
            ended["return_code"] = 0
        except SystemExit as end:
            ended["return_code"] = 0 if end.code is None or end.code == 0 else 1
            if ended["return_code"]:
                ended["error"] = {"name": "SystemExit", "message": cut(str(end.code), MOST_MESSAGE), "traceback": ""}
        except BaseException as error:
            ended["error"] = described(error)

    def evaluate(self, code):
        value = eval(code, self.main.__dict__)
        return self.until_done(value) if code.co_flags & CO_COROUTINE else value

    def until_done(self, coroutine):
        """Runs a cell with `await` in it. The loop stays, and with it what was made for it."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass
            raise

    def remember(self, number, code):
        """Keeps the source for tracebacks. Gives the name of its file."""
        name = f"{CELL}{number}>"
        try:
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)
            self.sources.append((name, len(code)))
            while len(self.sources) > MOST_SOURCES or sum(size for _, size in self.sources) > MOST_SOURCE_CHARACTERS:
                linecache.cache.pop(self.sources.pop(0)[0], None)
        except Exception:
            pass  # the code replaced something: its tracebacks quote no lines
        return name

    def restore_streams(self):
        """A cell begins with streams that work, whatever the one before did to its own."""
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            # Dropping what the code had instead may close the descriptor.
            for own in (name, f"__{name}__"):
                setattr(sys, own, None)
            try:
                dup2(self.descriptors[number], number)
                set_blocking(number, True)
            except OSError:
                pass  # the code closed the copy
            buffer = self.output(number) if number else open(0, "rb", closefd=False)
            stream = TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True, write_through=True)
            for own in (name, f"__{name}__"):
                setattr(sys, own, stream)

    def output(self, number):
        """One for all cells: what they keep of their streams is flushed with it."""
        try:
            self.outputs[number].flush()
        except Exception:
            self.outputs[number] = Output(FileIO(number, "w", closefd=False))
        return self.outputs[number]

    def flush(self):
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *self.outputs.values()):
            try:
                stream.flush()
            except Exception:
                pass

    def show(self):
        """Takes the place of `pyplot.show`. Figures of threads and of other processes are drawn at the end of the cell, if at all."""
        if get_ident() == self.thread and getpid() == self.pid:
            self.artifacts.figures()

    def ask(self, prompt="", /):
        """Takes the place of `input`: asks the user of the call, if there is one."""
        self.flush()
        if get_ident() != self.thread or getpid() != self.pid:
            raise EOFError("input() can ask the user only in the main thread of the session")
        self.questions += 1
        own = f"input-{self.questions}"
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        message = cut(str(prompt), MOST_MESSAGE) or "The code waits for a line of input."
        self.send({"input_required": {"id": own, "message": message, "schema": schema}})
        while True:
            line = self.read_line()
            if line is None:
                raise EOFError("the worker closed the connection")
            answer = loads(line).get("answer")
            if answer and answer.get("id") == own:
                break
        if answer["action"] == "accept":
            return str(answer["content"]["text"])
        if answer["action"] == "unavailable":
            raise EOFError(f"input() can't ask the user: {answer.get('reason', '')}")
        raise EOFError(f"input() got no answer: the user chose to {answer['action']}")

    def read_line(self):
        """The next line of the worker. None: there will be none."""
        searched = 0
        while True:
            end = self.waiting.find(b"\n", searched)
            if end >= 0:
                line = bytes(self.waiting[:end])
                del self.waiting[:end + 1]
                return line
            searched = len(self.waiting)
            data = read(self.descriptor, 65536)
            if not data:
                return None
            self.waiting += data

    def send(self, message):
        # Names of files and messages may hold what is no character. As an escape, it would be no JSON for the worker.
        data = dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if self.unfinished:
            data = b"\n" + data
        # An interrupt may leave half a line.
        self.unfinished = True
        while data:
            data = data[write(self.descriptor, data):]
        self.unfinished = False


def cell_code(code, name):
    """The code of a cell, and that of its last expression, if it ends with one."""
    tree = compile(code, name, "exec", FLAGS | ast.PyCF_ONLY_AST, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval", FLAGS, True)
    return compile(tree, name, "exec", FLAGS, True), last
