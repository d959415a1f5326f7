#!/usr/bin/env python3
"""Packs the programs of a release as a wheel, for pip, pipx and uv.

    deploy/wheel.py TREE VERSION OUT      TREE: what dist.sh puts into the tarball

Prints the path of the wheel. The time of its files is SOURCE_DATE_EPOCH: the same tree gives the same bytes. Its platform
tag has the glibc that the programs need.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import zipfile

# Not `openskill`: on PyPI, that is a library of somebody else.
NAME = "openskill-cli"
PROGRAMS = ("openskill", "openskill-readers")
# What PEP 600 lets a manylinux wheel take from the system.
SYSTEM_LIBRARIES = re.compile(r"ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.\d+")
README = """\
# openskill

The program `openskill`, for Linux with glibc: a gateway through which AI agents call tools, and workers that run them. The
wheel depends on no other package. Skills in Python run with the Python on `PATH`.

    pip install ./openskill_cli-VERSION-….whl
    openskill init demo && cd demo
    openskill up

The shipped skills are part of the program: `openskill add` lists them. The wheels `openskill_client` and `openskill_sdk`
of the same release are for calling and for writing skills in Python.
"""


def readelf(option, program):
    return subprocess.run(
        ["readelf", "--wide", option, program], check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"LC_ALL": "C"}
    ).stdout


def platform_tag(programs):
    """The tag of the oldest systems on which all programs run."""
    foreign, versions = set(), {(2, 17)}
    for program in programs:
        libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", program))
        foreign |= {it for it in libraries if not SYSTEM_LIBRARIES.fullmatch(it)}
        needed = re.findall(r"\bGLIBC_(\d+)\.(\d+)", readelf("--version-info", program))
        versions |= {(int(major), int(minor)) for major, minor in needed}
    if foreign:
        sys.exit(f"wheel.py: the programs need libraries that not every Linux has: {', '.join(sorted(foreign))}")
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def contents(tree, version, tag):
    """What is in the wheel: pairs of a path and its bytes and mode. RECORD, which lists them, comes last."""
    stem = f"{NAME.replace('-', '_')}-{version}"
    for name in PROGRAMS:
        yield f"{stem}.data/scripts/{name}", (tree / "bin" / name).read_bytes(), 0o755
    metadata = {
        "Metadata-Version": "2.4",
        "Name": NAME,
        "Version": version,
        "Summary": "A gateway through which AI agents call tools, and workers that run them",
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Classifier": "Operating System :: POSIX :: Linux",
        "Description-Content-Type": "text/markdown",
    }
    wheel = {"Wheel-Version": "1.0", "Generator": "openskill", "Root-Is-Purelib": "false", "Tag": f"py3-none-{tag}"}
    yield f"{stem}.dist-info/METADATA", (headers(metadata) + "\n" + README).encode(), 0o644
    yield f"{stem}.dist-info/WHEEL", headers(wheel).encode(), 0o644
    yield f"{stem}.dist-info/licenses/LICENSE", (tree / "LICENSE").read_bytes(), 0o644


def headers(fields):
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    tree, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    tag = platform_tag([tree / "bin" / it for it in PROGRAMS])
    written = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    path = out / f"{NAME.replace('-', '_')}-{version}-py3-none-{tag}.whl"
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, content, mode):
            info = zipfile.ZipInfo(name, written)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix: the modes count.
            info.external_attr = (0o100000 | mode) << 16
            archive.writestr(info, content)

        for name, content, mode in contents(tree, version, tag):
            add(name, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
        listing = f"{path.name.split('-py3-')[0]}.dist-info/RECORD"
        add(listing, (record + f"{listing},,\n").encode(), 0o644)
    print(path)


if __name__ == "__main__":
    main()
