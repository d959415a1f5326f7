#!/usr/bin/env python3
"""Prints the software bill of materials of the programs of a release: CycloneDX 1.6, as JSON.

    deploy/sbom.py > openskill.cdx.json

It has what `cargo metadata --locked` says of the dependencies of the packages below, with the checksums of their locks.
The same sources give the same bytes. What only build scripts and macros use is in it with the scope `excluded`.
"""
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each with the folder of its lock. The first is what the bill is of.
PACKAGES = {"openskill": ROOT, "openskill-readers": ROOT / "crates/readers"}
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def metadata(folder, target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def host():
    said = subprocess.run(["rustc", "-vV"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))


def used(nodes, root):
    """The packages that `root` needs by id, each with whether the binary contains it."""
    linked, seen, waiting = set(), set(), [(root, True)]
    while waiting:
        package, is_linked = waiting.pop()
        if package in (linked if is_linked else seen | linked):
            continue
        seen.add(package)
        if is_linked:
            linked.add(package)
        for dependency in nodes[package]["deps"]:
            kinds = {it["kind"] for it in dependency["dep_kinds"]}
            if kinds & {None, "build"}:
                waiting.append((dependency["pkg"], is_linked and None in kinds))
    return {package: package in linked for package in seen}


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def component(package, is_linked, checksums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    found = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "required" if is_linked and not is_macro(package) else "excluded",
        "purl": purl,
    }
    if package["license"]:
        # Cargo still allows a slash, which SPDX never did.
        found["licenses"] = [{"expression": " ".join(package["license"].replace("/", " OR ").split())}]
    if checksum := checksums.get((name, version)):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def program(name, folder, target):
    """The component of a program, those of what it needs, and what needs what, each by its reference."""
    described = metadata(folder, target)
    packages = {it["id"]: it for it in described["packages"]}
    nodes = {it["id"]: it for it in described["resolve"]["nodes"]}
    root = next(it["id"] for it in described["packages"] if it["name"] == name and it["source"] is None)
    lock = tomllib.loads((folder / "Cargo.lock").read_text())
    checksums = {(it["name"], it["version"]): it["checksum"] for it in lock["package"] if "checksum" in it}
    foreign = {it["source"] for it in lock["package"] if "source" in it} - {REGISTRY}
    if foreign:
        sys.exit(f"packages from elsewhere than crates.io are not described: {sorted(foreign)}")

    needed = used(nodes, root)
    components = {id: component(packages[id], needed[id], checksums) for id in needed}
    depends = {
        components[id]["bom-ref"]: {components[it["pkg"]]["bom-ref"] for it in nodes[id]["deps"] if it["pkg"] in needed}
        for id in needed
    }
    own = components.pop(root) | {"type": "application"}
    return own, {it["bom-ref"]: it for it in components.values()}, depends


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else host()
    programs, components, depends = [], {}, {}
    for name, folder in PACKAGES.items():
        own, needed, needs = program(name, folder, target)
        programs.append(own)
        for reference, found in needed.items():
            if reference not in components or found["scope"] == "required":
                components[reference] = found
        for reference, others in needs.items():
            depends.setdefault(reference, set()).update(others)
    first, *others = programs
    components.update({it["bom-ref"]: it for it in others})
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": first,
            "properties": [{"name": "cdx:rustc:target", "value": target}],
        },
        "components": [components[it] for it in sorted(components)],
        "dependencies": [{"ref": it, "dependsOn": sorted(depends[it])} for it in sorted(depends)],
    }
    # The time of the commit, if the caller says it: a clock would make each bill another one.
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        bom["metadata"]["timestamp"] = datetime.fromtimestamp(int(epoch), timezone.utc).isoformat()
    text = json.dumps(bom, sort_keys=True)
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
    print(json.dumps(bom, indent=2))


if __name__ == "__main__":
    main()
