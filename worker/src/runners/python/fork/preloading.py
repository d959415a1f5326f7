"""What a fork server loads ahead of its calls: a script's imports, and its code. Part of its program, after script.py."""

import ast
import json
import signal

# Of the names that are reported.
MOST_FILES_BYTES = 24 * 1024


class Preloading:
    """The script's imports and its code, loaded once; without imports that leave behind what forks would share."""

    def __init__(self, script, skip):
        self.script = script
        self.skip = skip
        self.code = None

    def load(self):
        """Loads them. Gives the source of an import that must not be preloaded, or None."""
        try:
            with open(self.script, "rb") as file:
                source = file.read()
            tree = ast.parse(source, self.script)
            self.code = compile(source, self.script, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # each call reports it, as Python does
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
        """Loaded files outside Python's own library: a change to one of them is a change to the skill."""
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
