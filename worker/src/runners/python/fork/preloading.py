"""What a fork server loads ahead of its calls: a script's imports, and its code. Part of its program, after call.py."""

import ast
import json
import signal

# Of the names that are reported, and of an import statement.
MOST_FILES_BYTES = 24 * 1024
MOST_IMPORT = 200

# What an import may leave behind that forks would share: in the order of `process_state`, by the names that metrics have.
TRACES = ("thread", "process", "descriptor", "directory", "umask", "signal", "environment")


class Preloading:
    """The script's imports and its code, loaded once; without imports that leave behind what forks would share."""

    def __init__(self, settings):
        self.script = settings["script"]
        # Import statements, each with what it leaves behind.
        self.skip = settings["skip"]
        # A folder whose files do not change.
        self.fixed = settings["fixed"]
        # The function that calls run, or None: they run the script.
        self.function = settings["function"]
        self.code = None

    def load(self):
        """Loads them. Gives an import that must not be preloaded, with what it leaves behind, or None."""
        sys.argv = [self.script]
        own_place(self.script)
        try:
            with open(self.script, "rb") as file:
                source = file.read()
            tree = ast.parse(source, self.script)
            self.code = compile(source, self.script, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # each call reports it, as Python does
        if self.function is not None:
            import_sdk()
        for statement in imports(tree) + caller_imports(tree, self.function):
            unfit = preload(statement, self.script, self.skip)
            if unfit is not None:
                return unfit
        return None

    def files(self):
        """Loaded files outside Python's own library: a change to one of them is a change to the skill."""
        folders = [os.path.dirname(os.__file__), os.path.realpath(os.path.dirname(os.__file__))]
        library = tuple(folder + os.sep for folder in folders + [self.fixed] if folder)
        found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        own = [file for file in found if isinstance(file, str) and os.path.isabs(file) and not file.startswith(library)]
        files, size = [], 0
        for file in sorted(filter(os.path.isfile, own)):
            size += len(json.dumps(file))
            if size > MOST_FILES_BYTES:
                break
            files.append(file)
        return files

    def run(self, streams, last_word):
        """A call, in its own process. Never returns."""
        run(self.script, self.code, self.function, streams, last_word)


def preload(statement, file, skip, failed=None):
    """Runs an import statement of the file, unless it is one of those to skip. Gives it with what it leaves behind, or None.
    An import that fails is added to `failed`."""
    before = process_state()
    name = ast.unparse(statement)[:MOST_IMPORT]
    if any(it["import"] == name for it in skip):
        return None
    try:
        module = ast.Module([statement], [])
        exec(compile(module, file, "exec", dont_inherit=True), {"__name__": "__main__"})
    except BaseException:  # the script will meet it again, and may expect it
        if failed is not None:
            failed.append({"import": name, "leaves": "error"})
    left = [trace for trace, was, now in zip(TRACES, before, process_state()) if was != now]
    return {"import": name, "leaves": left[0]} if left else None


def imports(tree):
    """The import statements that the script begins with. A statement that does more than define a name may change what later
    imports find, so imports after it are left to each call."""
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


def caller_imports(tree, function):
    """What calling a function of the script takes, besides the SDK."""
    is_async = any(isinstance(it, ast.AsyncFunctionDef) and it.name == function for it in tree.body)
    return ast.parse("import asyncio").body if is_async else []


def only_names(statement):
    if isinstance(statement, (ast.Expr, ast.Assign)):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and not statement.decorator_list


def process_state():
    """What an import must leave unchanged: threads, processes, descriptors, folder, mask, signals, environment."""
    umask = os.umask(0o077)
    os.umask(umask)
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    listing = os.listdir("/proc/self/fd")
    threads = len(os.listdir("/proc/self/task"))
    return (threads, children(), len(listing), os.getcwd(), umask, handlers, dict(os.environ))
