"""Runs a script in this process. Comes first in the text of each program that does."""

import sys

# Our own imports come from Python's library alone: a skill may have the name of a module.
search, sys.path = sys.path, [entry for entry in sys.path if entry.startswith((sys.base_prefix, sys.base_exec_prefix))]
before_own = set(sys.modules)

import atexit
import builtins
import os
import types


def own_place(script):
    """Puts the script's folder first in the module path, as `python3 script` does; `-c` puts the current folder there."""
    folder = os.path.dirname(os.path.realpath(script) if os.path.islink(script) else script)
    rest = search[1:] if search[:1] == [""] else search
    sys.path = [folder, *rest]
    # A module of the script hides one of that name that we imported.
    for name in set(sys.modules) - before_own:
        if "." not in name and any(os.path.exists(os.path.join(folder, name + end)) for end in (".py", "/__init__.py")):
            del sys.modules[name]


def new_main(script):
    main = types.ModuleType("__main__")
    main.__file__ = script
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    return main


def compiled(script):
    """Its code. None if it does not compile: each call reports why, as Python does."""
    try:
        with open(script, "rb") as file:
            return compile(file.read(), script, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def execute(script, code, function=None):
    """Runs the script as `python3 script` would, or calls one of its functions. Gives the exit code."""
    main = new_main(script)
    try:
        if code is None:
            with open(script, "rb") as file:
                code = compile(file.read(), script, "exec", dont_inherit=True)
        if function is not None:
            call_function(main, code, function)
        exec(code, main.__dict__)
    except SystemExit as end:
        return exit_status(end.code)
    except BaseException as error:
        # Without the frame that is not the script's.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def call_function(main, code, function):
    """Ends with SystemExit. The file is a module, so that what it does as a program stays undone."""
    main.__name__ = os.path.splitext(os.path.basename(main.__file__))[0]
    sys.modules[main.__name__] = main
    import_sdk()
    try:
        from openskill_sdk.functions import run_function
    except ImportError:
        if "openskill_sdk" not in sys.modules:
            raise
        folder = os.path.dirname(list(sys.modules["openskill_sdk"].__path__)[0])
        hint = f"remove it, or replace it with `openskill sdk install {folder}`"
        raise ImportError(f"the openskill_sdk in '{folder}' is too old to call functions: {hint}") from None
    run_function(main, code, function)


def import_sdk():
    """Imports what calls functions. An SDK in the script's folder may be too old, so that folder comes last."""
    folder = sys.path.pop(0)
    try:
        import openskill_sdk.functions
    except BaseException:  # the call meets it again
        for name in [name for name in sys.modules if name.split(".")[0] == "openskill_sdk"]:
            del sys.modules[name]
    finally:
        sys.path.insert(0, folder)


def children(parent=None):
    """The children of this process, or of another with one thread. None where the system does not list them."""
    parent = parent or os.getpid()
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return None


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
