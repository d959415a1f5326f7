"""Finds the lines that contain a text, in the files beneath the allowed root."""

import fnmatch
import re

from openskill_sdk import Fields, Result, SkillError, progress, run
from openskill_sdk.errors import invalid
from openskill_sdk.paths import Root

SNIPPET_LENGTH = 240
BINARY_PROBE_BYTES = 8192


def handle(input):
    fields = Fields(input)
    query = fields.string("query", required=True, min_length=1, max_length=200)
    root_dir = fields.string("root_dir", default=None)
    glob = fields.string("glob", default="**/*", min_length=1, max_length=200)
    limit = fields.integer("limit", 1, 1000, default=20)
    fields.done()
    if re.search(r"[\r\n\0]", query):
        raise invalid("query", "must be one line of text: lines are searched one by one")
    pattern = parse_glob(glob)

    with Root() as root:
        if root_dir is None:
            root_dir = root.name
        listing = root.walk(root_dir, "root_dir")

        def selected(path):
            return glob_matches(pattern, listing.inside(path))

        files = [path for path in listing.files if selected(path)]
        search = Search(re.compile(re.escape(query), re.IGNORECASE), limit)
        search.skipped = sum(map(selected, listing.others))
        for index, path in enumerate(files):
            if search.more:
                break
            if index * 10 // len(files) != (index - 1) * 10 // len(files):
                progress(index / len(files), f"{index} of {len(files)} files")
            search.file(root, path)

    stats = {"files_scanned": search.scanned, "files_skipped": search.skipped, "bytes_read": search.bytes_read}
    return Result({"matches": search.matches, "stats": stats}, truncated=search.more or not listing.complete)


class Search:
    """The hits so far. `more` becomes true when one is found beyond the limit, and there it stops."""

    def __init__(self, needle, limit):
        self.needle, self.limit = needle, limit
        self.matches, self.more = [], False
        self.scanned = self.skipped = self.bytes_read = 0

    def file(self, root, path):
        try:
            content, beyond = root.read(path)
        except (SkillError, OSError):  # unreadable, or gone since the walk
            self.skipped += 1
            return
        if beyond or b"\0" in content[:BINARY_PROBE_BYTES]:
            self.skipped += 1
            return
        self.scanned += 1
        self.bytes_read += len(content)
        self._text(path, content.decode("utf-8", "replace"))

    def _text(self, path, text):
        line_no, counted = 1, 0
        hit = self.needle.search(text)
        while hit:
            if len(self.matches) == self.limit:
                self.more = True
                return
            start = text.rfind("\n", 0, hit.start()) + 1
            end = text.find("\n", hit.end())
            end = len(text) if end < 0 else end
            line_no += text.count("\n", counted, start)
            counted = start
            line = text[start:end].rstrip("\r")
            self.matches.append({"path": path, "line_no": line_no,
                                 "snippet": snippet(line, hit.start() - start, hit.end() - start)})
            hit = self.needle.search(text, end)


def snippet(line, start, end):
    """The line, or if it is long, the part of it with the hit in the middle."""
    if len(line) > SNIPPET_LENGTH:
        first = max(0, min((start + end - SNIPPET_LENGTH) // 2, len(line) - SNIPPET_LENGTH))
        line = line[first:first + SNIPPET_LENGTH]
    return line.strip()


def parse_glob(glob):
    """A glob as a list of components, relative to root_dir."""
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    if glob.startswith("/") or ".." in parts or not parts:
        raise invalid("glob", "must be relative to root_dir and without '..', e.g. '**/*.md'")
    if "{" in glob:
        raise invalid("glob", "braces are not supported; make one call for each pattern")
    try:
        fnmatch.fnmatchcase("", glob)
    except re.error:
        raise invalid("glob", "has an invalid range in brackets") from None
    return parts + ["*"] if parts[-1] == "**" else parts


def glob_matches(pattern, parts):
    """Whether the components of a path fit: `**` stands for any number of them, also none.

    On a mismatch only the last `**` can take one more component, so that the work stays bounded.
    """
    at = index = 0
    star = resume = None
    while index < len(parts):
        if at < len(pattern) and pattern[at] == "**":
            star, resume = at, index
            at += 1
        elif at < len(pattern) and fnmatch.fnmatchcase(parts[index], pattern[at]):
            at, index = at + 1, index + 1
        elif star is not None:
            resume += 1
            at, index = star + 1, resume
        else:
            return False
    return at == len(pattern)


if __name__ == "__main__":
    run(handle)
