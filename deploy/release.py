#!/usr/bin/env python3
"""Writes RELEASE.md, the notes of a release, and SHA256SUMS of all its files.

    deploy/release.py VERSION FOLDER      FOLDER: what dist.sh made, on one machine or on several

The notes are what CHANGELOG.md says of the version before its first list, or all of it, and a table of the files.
"""
import hashlib
import pathlib
import re
import sys

CHANGELOG = pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md"
NOTES, SUMS = "RELEASE.md", "SHA256SUMS"
ARCH = r"(?P<arch>\w+)"
# What the files are for, by their names without `-VERSION`.
PURPOSES = {
    rf"openskill-linux-{ARCH}\.tar\.gz": "the program, skills, completions and systemd units for {arch}: run its `install.sh`",
    rf"openskill_cli-py3-none-manylinux_(?P<major>\d+)_(?P<minor>\d+)_{ARCH}\.whl": "the program for {arch} with glibc "
    "{major}.{minor} or later: `uv tool install FILE` or `pipx install FILE`",
    r"openskill_client-py3-none-any\.whl": "a Python client, to call skills: `pip install FILE` in a virtual environment",
    r"openskill_sdk-py3-none-any\.whl": "a library, to write skills in Python: `pip install FILE` in a virtual environment",
    rf"openskill-(?P<image>gateway|worker)-linux-{ARCH}\.tar\.gz": "the {image}'s image for {arch}: `docker load --input FILE`",
    rf"openskill-linux-{ARCH}\.debug": "debug symbols of the program for {arch}, for gdb and perf",
    rf"openskill-linux-{ARCH}\.cdx\.json": "the bill of materials (CycloneDX)",
}


def purpose(name, version):
    """What a file is for. None if it is not a file of this release."""
    own, mark, rest = name.partition(f"-{version}-")
    for pattern, text in PURPOSES.items():
        if mark and (found := re.fullmatch(pattern, f"{own}-{rest}")):
            return text.format(**found.groupdict())
    return None


def size(count):
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def changes(version):
    """What the changelog says of a version."""
    found = re.search(rf"^## \[{re.escape(version)}\].*\n((?:(?!## \[).*\n)*)", CHANGELOG.read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"release.py: CHANGELOG.md has no section [{version}]: give what is unreleased this heading, and a date")
    summary = found[1].split("\n### ")[0].strip() or found[1].strip()
    # GitHub breaks the lines of notes where the text does.
    return re.sub(r"(?<!\n)\n *(?!\s|[-*+] |#)", " ", summary)


def notes(version, files):
    rows = "".join(f"| `{it.name}` | {size(it.stat().st_size)} | {purpose(it.name, version)} |\n" for it in files)
    return f"""\
# openskill {version}

{changes(version)}

`CHANGELOG.md` in the tarball lists all changes.

## Files

| file | size | for |
|---|---:|---|
{rows}
To verify the files that you downloaded, with `{SUMS}` in the same directory:

```sh
sha256sum --ignore-missing --check {SUMS}
```
"""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    files = sorted(it for it in folder.iterdir() if not it.name.startswith(".") and it.name not in (NOTES, SUMS))
    strange = [str(it) for it in files if not purpose(it.name, version)]
    if strange:
        sys.exit(f"release.py: not of release {version}: {', '.join(strange)}; move them away, then run: {' '.join(sys.argv)}")
    (folder / NOTES).write_text(notes(version, files))
    listed = sorted([*files, folder / NOTES])
    (folder / SUMS).write_text("".join(f"{digest(it)}  {it.name}\n" for it in listed))


if __name__ == "__main__":
    main()
