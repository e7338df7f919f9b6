#!/usr/bin/env python3
"""Writes the bill of materials of a crate: every crate that is compiled into it, as CycloneDX 1.5 in JSON.

    python3 tools/make_sbom.py ort-cli > ort-cli.cdx.json
    python3 tools/make_sbom.py --check          # that of every shipped crate can be made

Name, version, license and checksum of a crate are those of Cargo.lock and of the crates' manifests. The same lock file gives the
same bytes: there is no time and no random number in it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHIPPED = ["ort-cli", "ort-server", "ort-session", "ort-capi", "ort-python", "ort-wasm"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crate", nargs="?", help="the crate that is shipped")
    parser.add_argument("--check", action="store_true", help="only check that it can be made, for all shipped crates")
    arguments = parser.parse_args()
    if arguments.check == (arguments.crate is not None):
        parser.error("give a crate or --check")
    metadata, checksums = read()
    if arguments.check:
        for crate in SHIPPED:
            check(bill(metadata, checksums, crate))
            print(f"{crate}: complete")
    else:
        json.dump(bill(metadata, checksums, arguments.crate), sys.stdout, indent=1)
        print()


def read():
    """What cargo knows of the workspace, and the checksum of each crate of a registry."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in lock["package"]}
    return metadata, checksums


def bill(metadata, checksums, crate):
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    roots = [id for id in metadata["workspace_members"] if packages[id]["name"] == crate]
    if not roots:
        raise SystemExit(f"no crate {crate} in the workspace")
    needs = {}
    rest = roots[:]
    while rest:
        id = rest.pop()
        if id not in needs:
            needs[id] = sorted(it["pkg"] for it in nodes[id]["deps"] if is_compiled(it))
            rest += needs[id]
    others = sorted((id for id in needs if id != roots[0]), key=lambda id: purl(packages[id]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[roots[0]], checksums, "application")},
        "components": [component(packages[id], checksums, "library") for id in others],
        "dependencies": [
            {"ref": purl(packages[id]), "dependsOn": sorted(purl(packages[it]) for it in needs[id])}
            for id in [roots[0], *others]
        ],
    }


def is_compiled(dependency):
    """Whether it is more than a tool of the tests."""
    return any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"])


def component(package, checksums, kind):
    found = {
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def check(bill):
    """Every crate of a registry has a license and a checksum, and every reference leads somewhere."""
    names = {bill["metadata"]["component"]["bom-ref"], *(it["bom-ref"] for it in bill["components"])}
    for it in bill["components"]:
        is_ours = it["name"].startswith("ort-") and "hashes" not in it
        if not it.get("licenses") or not is_ours and "hashes" not in it:
            raise SystemExit(f"{it['purl']}: no license or checksum")
    for it in bill["dependencies"]:
        for name in it["dependsOn"]:
            if name not in names:
                raise SystemExit(f"{it['ref']}: {name} is not listed")


if __name__ == "__main__":
    main()
