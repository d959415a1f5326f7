"""The only way in which a skill touches files: beneath one folder, the allowed root.

The host names it in OPENSKILL_ALLOWED_ROOT (default ./data), by a path without symlinks. Callers write paths
relative to the folder that holds it: `data/docs/guide.md` or `./data/docs/guide.md`. Nothing a caller writes
and nothing beneath the root is trusted. Nor is the way to the root: it may be a folder in the root of another
skill, which can put a symlink in its place.

A path is not checked and then opened, which would leave time to swap a folder for a symlink in between.
It is opened one component at a time, each from the descriptor of the one before, never following a
symlink, and what was opened is then looked at with fstat. A name that comes apart under us opens nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice

from .arguments import kind
from .errors import SkillError, invalid

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost each skill milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MAX_FILE_BYTES = 5 * 1024 * 1024
MAX_PATH_LENGTH = 1024
MAX_ENTRIES = 10_000
MAX_DEPTH = 32

_TEMPORARY = ".openskill-"
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Listing:
    """What a walk found: `files` can be read, `others` are symlinks, pipes and the like, all as callers
    write them. `complete` is false if the walk met one of its bounds."""

    def __init__(self, above: int) -> None:
        self._above = above
        self.files: list[str] = []
        self.others: list[str] = []
        self.complete = True

    def inside(self, path: str) -> list[str]:
        """The components of `path` beneath the folder that was walked."""
        return path.split("/")[self._above:]


class Root:
    """The allowed root, open. Use it in a `with` statement."""

    def __init__(self, setting: str | None = None) -> None:
        place = os.path.abspath(setting or os.environ.get("OPENSKILL_ALLOWED_ROOT") or "./data")
        shown = os.path.relpath(place)
        # The working directory is the root's parent; if it is not, the root goes by its own name.
        parts = [os.path.basename(place)] if shown.split("/")[0] == ".." else [part for part in shown.split("/") if part != "."]
        self._prefix = parts
        what = f"the folder '{self.name}', in which this skill may work,"
        try:
            self._fd = _open_place(place)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise SkillError("FORBIDDEN_PATH", f"{what} is a symbolic link, or below one; "
                                 "symbolic links are not followed") from None
            raise SkillError("NOT_FOUND", f"{what} does not exist or cannot be opened") from None

    @property
    def name(self) -> str:
        """The root as callers write it, usually `data`."""
        return "/".join(self._prefix) or "."

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def shown(self, parts: Iterable[str]) -> str:
        """Components beneath the root as a path that a caller can pass in."""
        return "/".join(self._prefix + list(parts)) or "."

    def split(self, path: Any, field: str = "path") -> list[str]:
        """The components of `path` beneath the root, from its text alone."""
        if not isinstance(path, str):
            raise invalid(field, f"must be a string, not {kind(path)}")
        if not path:
            raise invalid(field, f"must not be empty; {self._hint()}")
        if "\0" in path:
            raise invalid(field, "must not contain a NUL character")
        if len(path) > MAX_PATH_LENGTH:
            raise invalid(field, f"must have at most {MAX_PATH_LENGTH} characters")
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(field, "must be valid Unicode text") from None
        if path.startswith("/"):
            raise self._forbidden(path, field, "an absolute path is not allowed")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._forbidden(path, field, "'..' is not allowed in a path")
        if parts[:len(self._prefix)] != self._prefix:
            raise self._forbidden(path, field, f"the path is outside the folder '{self.name}'")
        return parts[len(self._prefix):]

    def read(self, path: str, field: str = "path", limit: int = MAX_FILE_BYTES) -> tuple[bytes, int]:
        """Up to `limit` bytes of a regular file, and how many more it had."""
        fd = self._open_file(path, field)
        with os.fdopen(fd, "rb", buffering=0) as file:
            size = os.fstat(fd).st_size
            chunks, left = [], limit
            while left > 0:
                chunk = file.read(min(left, 1 << 20))
                if not chunk:
                    break
                chunks.append(chunk)
                left -= len(chunk)
        return b"".join(chunks), max(0, size - limit)

    def walk(
        self, path: str, field: str = "path", max_entries: int = MAX_ENTRIES, max_depth: int = MAX_DEPTH
    ) -> Listing:
        """Everything in the folder `path` and below it that is not a folder, sorted. Follows no symlink."""
        parts = self.split(path, field)
        fd = self._open_folder(parts, path, field)
        listing = Listing(len(self._prefix) + len(parts))
        try:
            self._walk(fd, parts, max_depth, max_entries, listing)
        finally:
            os.close(fd)
        listing.files.sort()
        listing.others.sort()
        return listing

    def write(self, path: str, chunks: Iterable[bytes], field: str = "path", replace: bool = False) -> str:
        """Creates the file `path` from byte strings, with the folders it needs; returns the path.

        The file appears whole or not at all: it grows under a temporary name in the same folder. A file
        that exists is an error, or with `replace` is replaced if it is a regular file.
        """
        parts = self.split(path, field)
        if not parts:
            raise invalid(field, "is a folder, not a file")
        folder, name = self._open_folder(parts[:-1], path, field, create=True), parts[-1]
        try:
            self._write(folder, name, chunks, path, field, replace)
        except OSError as error:
            raise self._explain(error, folder, name, path, field) from None
        finally:
            os.close(folder)
        return self.shown(parts)

    def _write(
        self, folder: int, name: str, chunks: Iterable[bytes], path: str, field: str, replace: bool
    ) -> None:
        self._check_target(folder, name, path, field, replace)
        temporary = f"{_TEMPORARY}{os.urandom(8).hex()}.tmp"
        with os.fdopen(os.open(temporary, _CREATE, 0o644, dir_fd=folder), "wb") as file:
            try:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                if replace:
                    # If the name became a symlink meanwhile, the symlink is replaced, not what it leads to.
                    self._check_target(folder, name, path, field, replace)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                    os.unlink(temporary, dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise

    def _check_target(self, folder: int, name: str, path: str, field: str, replace: bool) -> None:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            raise invalid(field, "is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise self._forbidden(path, field, "only a regular file may be replaced")
        if not replace:
            raise invalid(field, "already exists; choose another name")

    def _open_file(self, path: str, field: str) -> int:
        parts = self.split(path, field)
        if not parts:
            raise invalid(field, "is a folder, not a file")
        folder = self._open_folder(parts[:-1], path, field)
        try:
            fd = os.open(parts[-1], _FILE, dir_fd=folder)
        except OSError as error:
            raise self._explain(error, folder, parts[-1], path, field) from None
        finally:
            os.close(folder)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return fd
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise invalid(field, "is a folder, not a file")
        raise self._forbidden(path, field, "only regular files may be read")

    def _open_folder(self, parts: list[str], path: str, field: str, create: bool = False) -> int:
        fd = os.dup(self._fd)
        for part in parts:
            try:
                if create:
                    try:
                        os.mkdir(part, 0o755, dir_fd=fd)
                    except FileExistsError:
                        pass
                inner = os.open(part, _FOLDER, dir_fd=fd)
            except OSError as error:
                try:
                    raise self._explain(error, fd, part, path, field) from None
                finally:
                    os.close(fd)
            os.close(fd)
            fd = inner
        return fd

    def _walk(self, fd: int, parts: list[str], depth: int, budget: int, listing: Listing) -> int:
        with os.scandir(fd) as scan:
            entries = list(islice(scan, budget + 1))
        if len(entries) > budget:
            listing.complete = False
            entries = entries[:budget]
        budget -= len(entries)
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith(_TEMPORARY):
                continue
            inner = parts + [entry.name]
            if not _is_text(entry.name):
                listing.others.append(self.shown(inner))
            elif entry.is_dir(follow_symlinks=False):
                if depth <= 1 or budget <= 0:
                    listing.complete = False
                    continue
                try:
                    folder = os.open(entry.name, _FOLDER, dir_fd=fd)
                except OSError:  # not readable, or no longer a folder
                    listing.others.append(self.shown(inner))
                    continue
                try:
                    budget = self._walk(folder, inner, depth - 1, budget, listing)
                finally:
                    os.close(folder)
            elif entry.is_file(follow_symlinks=False):
                listing.files.append(self.shown(inner))
            else:
                listing.others.append(self.shown(inner))
        return budget

    def _explain(self, error: OSError, folder: int, name: str, path: str, field: str) -> Exception:
        """What to tell the caller about a path that did not open. It is refused in any case."""
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            mode = 0
        if error.errno == errno.ELOOP or stat.S_ISLNK(mode):
            return self._forbidden(path, field, "symbolic links are not followed")
        if error.errno == errno.ENXIO or (mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)):
            return self._forbidden(path, field, "only regular files may be read")
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return SkillError("PERMISSION_DENIED", f"{field}: the skill has no permission for '{path}'",
                              field=field, path=path)
        if error.errno == errno.ENOTDIR and mode:
            return invalid(field, f"'{name}' is a file, not a folder")
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return SkillError("NOT_FOUND", f"{field}: there is no '{path}'; {self._hint()}", field=field, path=path)
        if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
            return invalid(field, "is a folder, not a file")
        if error.errno == errno.EEXIST:
            return invalid(field, "already exists; choose another name")
        if error.errno == errno.ENAMETOOLONG:
            return invalid(field, "has a component that is too long for a file name")
        return error

    def _forbidden(self, path: str, field: str, reason: str) -> SkillError:
        return SkillError("FORBIDDEN_PATH", f"{field}: '{path}' is refused: {reason}; {self._hint()}",
                          field=field, path=path, reason=reason)

    def _hint(self) -> str:
        return f"paths start with '{self.name}/'" if self._prefix else "paths are relative"


def _open_place(path: str) -> int:
    """Opens a folder by its absolute path. A symlink on the way is ELOOP."""
    names = [name for name in path.split("/") if name]
    fd = os.open("/", _PLACE if names else _FOLDER)
    for number, name in enumerate(names, 1):
        try:
            inner = os.open(name, _FOLDER if number == len(names) else _PLACE, dir_fd=fd)
        except OSError as error:
            # A symlink is no folder: ENOTDIR.
            if _is_link(name, fd):
                raise OSError(errno.ELOOP, "a symbolic link") from error
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # a name that JSON cannot carry cannot be asked for either
        return False
    return True
