"""The fork server of one skill: it has the script's imports and its compiled code, and forks a process for each call.

Started by the worker, under a supervisor, with this text on descriptor 0. CALLS is a socket that carries one message for
each call, with the call's four descriptors (stdin, stdout, stderr, events). Idle children wait on it, a few of them ahead
of time; whichever gets a message runs that call and ends. STATUS is a pipe to the supervisor:

    r <json>                   calls are served from now on; which files were loaded, and which imports were not
    s <call> <pid> <folder>    a child has the call, the script does not have the word yet; its folder for temporary files
    e <pid> <wait status>      a child has ended

A child closes both before the script runs. The standard library is all that is needed.
"""

import sys

# Its own imports come from Python's library alone: a skill may be called as a module is.
search, sys.path = sys.path, [entry for entry in sys.path if entry.startswith((sys.base_prefix, sys.base_exec_prefix))]
before_own = set(sys.modules)

import _socket
import array
import ast
import atexit
import builtins
import ctypes
import gc
import io
import json
import os
import resource
import signal
import types

# What a child calls: without the names and checks around it, which would be so many more pages to copy.
import _signal

CALL_ID = "OPENSKILL_CALL_ID"
CALL_ID_BYTES = 128
# What a call adds to the environment; more may come with it.
CALL_NAMES = ("OPENSKILL_CALL_ID", "OPENSKILL_SESSION_ID", "OPENSKILL_TIMEOUT_MS", "OPENSKILL_TRACE_ID", "TRACEPARENT",
              "OPENSKILL_EVENTS_FD")
REHEARSAL = compile("import json, sys\nprint(json.dumps(json.load(sys.stdin)))", "<openskill>", "exec")
MESSAGE_BYTES = 64 * 1024
DESCRIPTORS = 4
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_VERSION = 1
LANDLOCK_PATH_BENEATH = 1
LANDLOCK_SCOPE_SIGNAL = 2
# To write and truncate a file; to remove, make and link what is in a folder. Each since its version of the interface.
CHANGE_FILE = {1: 1 << 1, 3: 1 << 14}
CHANGE_FOLDER = {1: sum(1 << bit for bit in range(4, 13)), 2: 1 << 13}
# What everybody writes to.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
MOST_FILES_BYTES = 24 * 1024
# The system's answer to a child that could not even begin.
NOT_BEGUN = 70


class Preloading:
    """The script's imports and its code, loaded once: only what leaves nothing behind that a fork could share."""

    def __init__(self, script, skip):
        self.script = script
        self.skip = skip
        self.code = None

    def load(self):
        """The source lines of an import that must not be shared, or None."""
        try:
            with open(self.script, "rb") as file:
                source = file.read()
            tree = ast.parse(source, self.script)
            self.code = compile(source, self.script, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # each call says so itself, in Python's own words
        for statement in imports(tree):
            before = process_state()
            name = ast.unparse(statement)
            if name in self.skip:
                continue
            try:
                module = ast.Module([statement], [])
                exec(compile(module, self.script, "exec", dont_inherit=True), {"__name__": "__main__"})
            except BaseException:  # the script will meet it again, and may expect it
                pass
            if process_state() != before:
                return name
        return None

    def files(self):
        """What was loaded from outside Python's own library: a change to one of them is a change to the skill."""
        library = tuple({os.path.dirname(os.__file__) + os.sep, os.path.realpath(os.path.dirname(os.__file__)) + os.sep})
        found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        own = [file for file in found if isinstance(file, str) and os.path.isabs(file) and not file.startswith(library)]
        files, size = [], 0
        for file in sorted(filter(os.path.isfile, own)):
            size += len(json.dumps(file))
            if size > MOST_FILES_BYTES:
                break
            files.append(file)
        return files


def imports(tree):
    """The import statements that the script begins with. What stands before one, and does more than to name something, may
    change what it finds: so those after it are left to each call."""
    found = []
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if getattr(statement, "module", None) != "__future__":
                found.append(statement)
        elif isinstance(statement, ast.Try) and all(isinstance(it, (ast.Import, ast.ImportFrom)) for it in statement.body):
            found.extend(statement.body)
        elif not only_names(statement):
            break
    return found


def only_names(statement):
    if isinstance(statement, (ast.Expr, ast.Assign)):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and not statement.decorator_list


def children():
    """The processes that this one started, where the system lists them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def process_state():
    """What an import must leave as it was: threads, processes, descriptors, folder, mask, signals, environment."""
    umask = os.umask(0o077)
    os.umask(umask)
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    listing = os.listdir("/proc/self/fd")
    threads = len(os.listdir("/proc/self/task"))
    return (threads, children(), len(listing), os.getcwd(), umask, handlers, dict(os.environ))


class Server:
    """The parent of the calls."""

    def __init__(self, settings, calls, status, preloaded):
        self.settings = settings
        self.calls = calls
        self.status = status
        self.preloaded = preloaded
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.idle = set()
        self.busy = set()
        self.notices = b""
        self.place = name_place(self.libc)
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_write, False)
        self.streams = sys.stdout, sys.stderr
        # Nobody of the same user may look into it, or write where it writes.
        self.libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)

    def serve(self):
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        # What is here now is in every child; looking at it for garbage would only copy it.
        gc.collect()
        gc.freeze()
        while True:
            self.fork_ahead()
            self.notice(os.read(self.wake_read, 4096))
            self.reap()

    def fork_ahead(self):
        """As many idle children as the load asks for. One call at a time leaves one waiting, and the next is made when it
        has ended: the two would only be in each other's way."""
        least = self.settings["least_idle"] - (len(self.busy) == 1)
        wanted = max(least, min(len(self.busy) - 1, self.settings["most_idle"]))
        while len(self.idle) < wanted and len(self.idle) + len(self.busy) < self.settings["most"]:
            try:
                pid = os.fork()
            except OSError:
                if not self.idle and not self.busy:
                    raise
                return  # there is no more room; the end of a child makes some
            if pid == 0:
                self.child()
            self.idle.add(pid)

    def notice(self, data):
        """Children that took a call say `t<pid>`; the end of one is a byte of its own, which only wakes."""
        self.notices += data.replace(bytes([signal.SIGCHLD]), b"")
        *whole, self.notices = self.notices.split(b"\n")
        for pid in (int(line[1:]) for line in whole):
            if pid in self.idle:
                self.idle.remove(pid)
                self.busy.add(pid)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.idle:
                # It can't have ended without a word, unless somebody ended it: then it is not for us to go on.
                self.notice(read_waiting(self.wake_read))
                if pid in self.idle:
                    os._exit(1)
            self.busy.discard(pid)
            os.write(self.status, b"e %d %d\n" % (pid, status))

    def child(self):
        """One call, from its message to the end of the process. Never returns."""
        try:
            _signal.set_wakeup_fd(-1)
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            os.close(self.wake_read)
            os.setsid()
            # What the call leaves behind stays below it while it lives, and comes to the supervisor when it ends.
            self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            limit(resource.RLIMIT_CPU, self.settings["cpu_seconds"])
            folder = temporary_folder()
            if self.settings["jailed"]:
                keep_apart(self.libc, self.settings["writable"], folder)
            rehearse(self.settings["script"], self.place)
            call, descriptors = receive(self.calls)
            if self.place:
                ctypes.memmove(self.place, call["env"][CALL_ID].encode()[:CALL_ID_BYTES].ljust(CALL_ID_BYTES, b"\0"), CALL_ID_BYTES)
            os.write(self.wake_write, b"t%d\n" % os.getpid())
            name = os.path.basename(folder) if folder else ""
            os.write(self.status, b"s %d %d %s\n" % (call["call"], os.getpid(), name.encode()))
            os.close(self.wake_write)
            os.close(self.status)
            self.calls.close()
            limit(resource.RLIMIT_NPROC, call["processes"])
            environment(call, adopt(descriptors), folder)
            reseed()
            self.libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        except BaseException:
            os._exit(NOT_BEGUN)
        run(self.settings["script"], self.preloaded.code, self.streams)


def name_place(libc):
    """Where the system reads a call's id when it is asked for this process's environment; 0 if that is nowhere.

    A fork shows the environment its parent was started with. So that of the fork server has room for an id.
    """
    libc.getenv.restype = ctypes.c_void_p
    place = libc.getenv(CALL_ID.encode())
    return place if place and len(ctypes.string_at(place)) >= CALL_ID_BYTES else 0


def limit(kind, wanted):
    """Lowers a limit for good; one that is lower already stays."""
    most = resource.getrlimit(kind)[1]
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(kind, (wanted, wanted))


def read_waiting(descriptor):
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""
    finally:
        os.set_blocking(descriptor, True)


def keep_apart(libc, writable, folder):
    """Keeps this call from others of its fork server: it signals nobody but its own, and changes no temporary files but
    its own. Only what the kernel has; that of the fork server holds as well."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
    if version < 1:
        return
    file = sum(right for since, right in CHANGE_FILE.items() if since <= version)
    whole = file + sum(right for since, right in CHANGE_FOLDER.items() if since <= version)
    scope = LANDLOCK_SCOPE_SIGNAL if version >= 6 else 0
    bounded = whole if writable is not None and folder else 0
    if not (bounded or scope):
        return
    attributes = (ctypes.c_uint64 * 3)(bounded, 0, scope)
    size = 8 * (3 if version >= 6 else 2 if version >= 4 else 1)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    if ruleset < 0:
        raise OSError("no ruleset")
    if bounded:
        for path in (*writable, folder):
            allow(libc, ruleset, path, whole)
        for path in DEVICES:
            allow(libc, ruleset, path, file)
    if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError("the rules are not in force")
    os.close(ruleset)


def allow(libc, ruleset, path, rights):
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    # Packed: eight bytes of rights, four of a descriptor.
    rule = rights.to_bytes(8, sys.byteorder) + beneath.to_bytes(4, sys.byteorder)
    if libc.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, rule, 0) != 0:
        raise OSError("no rule")
    os.close(beneath)


def receive(calls):
    """The next call. The end of the process if there will be none."""
    space = _socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, _flags, _address = calls.recvmsg(MESSAGE_BYTES, space)
    if not data:
        os._exit(0)
    descriptors = array.array("i")
    for level, kind, rights in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors.frombytes(rights[:len(rights) - len(rights) % descriptors.itemsize])
    if len(descriptors) != DESCRIPTORS:
        os._exit(NOT_BEGUN)
    return json.loads(data), descriptors


def rehearse(script, place):
    """Does once, for nothing, what each call does, while nobody waits: a page is copied when it is first touched."""
    json.loads('{"call": 1, "env": {"A": "-"}, "processes": 1}')
    os.environ.update({name: "-" for name in CALL_NAMES})
    if place:
        ctypes.memmove(place, b"-" * CALL_ID_BYTES, CALL_ID_BYTES)
    asks, *answers = open_streams()
    os.write(asks, b'{"input": {}}')
    os.close(asks)
    exec(REHEARSAL, new_main(script).__dict__)
    sys.stdout.flush()
    for end in answers:
        os.close(end)
    # Those were used: the call gets others.
    for end in open_streams():
        os.close(end)
    for name in CALL_NAMES:
        del os.environ[name]


def open_streams():
    """Standard streams on pipes, until the call's descriptors take their places. The pipes' other ends."""
    others = []
    for number in range(3):
        read, write = os.pipe()
        own, other = (write, read) if number else (read, write)
        os.dup2(own, number)
        os.close(own)
        others.append(other)
    utf8 = {"encoding": "utf-8", "closefd": False}
    sys.stdin = sys.__stdin__ = open(0, "r", errors="surrogateescape", **utf8)
    sys.stdout = sys.__stdout__ = open(1, "w", errors="surrogateescape", **utf8)
    sys.stderr = sys.__stderr__ = open(2, "w", errors="backslashreplace", buffering=1, **utf8)
    return others


def new_main(script):
    main = types.ModuleType("__main__")
    main.__file__ = script
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    return main


def adopt(descriptors):
    """Makes the call's descriptors this process's own. The number of the one for events."""
    events = descriptors[3]
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.set_inheritable(events, True)
    return events


def temporary_folder():
    """A folder for this process alone, within that of the fork server; its supervisor removes it."""
    base = os.environ.get("TMPDIR")
    if not base:
        return None
    # Nobody can be there first.
    folder = os.path.join(base, os.urandom(16).hex())
    os.mkdir(folder, 0o700)
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None
    return folder


def environment(call, events, folder):
    os.environ.update(call["env"])
    os.environ["OPENSKILL_EVENTS_FD"] = str(events)
    if folder:
        os.environ["TMPDIR"] = folder


def reseed():
    """Python's own random numbers differ in each fork; these do not by themselves."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def run(script, code, streams):
    """The script, as `python3 script` would run it. Never returns. `streams`: what imports may have taken for stdout."""
    main = new_main(script)
    status = 0
    try:
        try:
            if code is None:
                with open(script, "rb") as file:
                    code = compile(file.read(), script, "exec", dont_inherit=True)
            exec(code, main.__dict__)
        except SystemExit as end:
            status = exit_status(end.code)
        except BaseException as error:
            status = 1
            # Without the frames that are not the script's.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            sys.excepthook(type(error), error, error.__traceback__)
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        status = status or 1
    # Python would close what is open still.
    for stream in open_files(streams):
        try:
            stream.flush()
        except BaseException:
            pass
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BaseException:
        status = 120  # what Python itself says then
    os._exit(status)


def open_files(streams):
    """Whatever may hold something back: streams, text before the bytes it becomes."""
    found = [it for it in gc.get_objects() if isinstance(it, io.IOBase) and it is not sys.stdout]
    found.sort(key=lambda it: not isinstance(it, io.TextIOBase))
    return [*streams, *found]


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def own_place(script):
    """Where the script's own modules are found first, as with `python3 script`; `-c` has the current folder there."""
    folder = os.path.dirname(os.path.realpath(script) if os.path.islink(script) else script)
    rest = search[1:] if search[:1] == [""] else search
    sys.path = [folder, *rest]
    # One of its own by the name of one that is here for this program's sake is meant.
    for name in set(sys.modules) - before_own:
        if "." not in name and any(os.path.exists(os.path.join(folder, name + end)) for end in (".py", "/__init__.py")):
            del sys.modules[name]


def main():
    before = dict(os.environ)
    folder, umask = os.getcwd(), os.umask(0o077)
    os.umask(umask)
    calls_number = int(os.environ.pop("OPENSKILL_EVENTS_FD"))
    status_number = int(os.environ.pop("OPENSKILL_STATUS_FD"))
    settings = json.loads(os.environ.pop("OPENSKILL_FORKSERVER"))
    os.set_inheritable(calls_number, False)
    os.set_inheritable(status_number, False)
    script = settings["script"]
    sys.argv = [script]
    own_place(script)
    preloading = Preloading(script, settings["skip"])
    unfit = preloading.load()
    if unfit is not None:
        # It left threads or open files, which forks would share or lose: begin again without it.
        settings["skip"].append(unfit)
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        os.set_inheritable(calls_number, True)
        os.set_inheritable(status_number, True)
        os.chdir(folder)
        os.umask(umask)
        os.execve(sys.executable, settings["argv"], {**before, "OPENSKILL_FORKSERVER": json.dumps(settings)})
    server = Server(settings, _socket.socket(fileno=calls_number), status_number, preloading)
    ready = {"files": preloading.files(), "not_preloaded": settings["skip"]}
    os.write(status_number, b"r " + json.dumps(ready).encode("ascii") + b"\n")
    server.serve()


main()
