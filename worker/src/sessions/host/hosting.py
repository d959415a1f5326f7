"""From a child of the fork server to a session: the end of the program, which server.py runs."""

import ast
import os
import sys
from os import _exit


class Hosting:
    """Takes the place of `Preloading`: a session has no script. Its interpreter has loaded what is imported above, and the
    modules that the manifest names."""

    def __init__(self, settings):
        self.modules = settings["preload"]
        # As in `Preloading`.
        self.skip = settings["skip"]

    def load(self):
        sys.argv = [""]
        sys.path = [entry for entry in search if entry]
        if not self.modules:
            return None
        # matplotlib makes a folder of its own otherwise, and names it in the environment.
        os.environ["MPLCONFIGDIR"] = os.path.join(os.environ["TMPDIR"], ".matplotlib")
        failed = []
        for module in self.modules:
            statement = ast.Import([ast.alias(module, None)])
            unfit = preload(ast.fix_missing_locations(statement), "<preload>", self.skip, failed)
            if unfit is not None:
                return unfit
        self.skip += failed
        return None

    def files(self):
        return []

    def run(self, _streams, last_word):
        """The session, to its end. Never returns."""
        status = 1
        try:
            os.environ.pop("OPENSKILL_EVENTS_FD", None)
            base = os.environ["TMPDIR"]
            folder = os.path.join(base, "work")
            os.mkdir(folder, 0o700)
            os.chdir(folder)
            os.environ["HOME"] = base
            os.environ["MPLCONFIGDIR"] = os.path.join(base, ".matplotlib")
            sys.path.insert(0, folder)
            add_packages(os.environ.pop("OPENSKILL_PACKAGES", None))
            Session(last_word.events, folder).serve()
            status = 0
        finally:
            _exit(status)


def add_packages(folder):
    """What is installed in the session comes before the interpreter's own packages, and after its library."""
    if folder:
        own = (at for at, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages")))
        sys.path.insert(next(own, len(sys.path)), folder)
