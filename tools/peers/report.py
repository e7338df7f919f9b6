"""Tables as text and as markdown, and their insertion into a document."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

END = "<!-- end -->"
# Options for locations, which do not affect the measurement.
PLACES = ("--cli", "--program", "--wheel", "--update", "--json")


def number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.mean(map(math.log, values)))


def as_markdown(lines: list[list[str]]) -> str:
    """A table whose first line contains the column headings."""
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def as_text(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines)]
    aligned = ([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines)
    return "\n".join("  ".join(cells) for cells in aligned)


def announced(cases: list[Path], more: str = "") -> Iterator[Path]:
    """The cases, each announced on stderr before it is measured."""
    for case in cases:
        print(f"measuring {case.name}{more}", file=sys.stderr, flush=True)
        yield case


def command() -> str:
    """The command that started this script, without the locations of our program and of the output."""
    words = iter(sys.argv[1:])
    kept = []
    for word in words:
        name, is_joined, _ = word.partition("=")
        if name not in (*PLACES, "--markdown", "--measure"):
            kept.append(word)
        elif name in PLACES and not is_joined:
            next(words, None)
    return shlex.join(["python3", f"tools/{Path(sys.argv[0]).name}", *kept])


def section(machine: str, *parts: str) -> str:
    """A section of a document: the machine, the command, and the results."""
    return "\n\n".join([f"{machine}.", f"```sh\n{command()}\n```", *parts])


def update(document: Path, name: str, text: str) -> None:
    """Writes `text` between `<!-- measured: NAME -->` and the next `<!-- end -->`."""
    start = f"<!-- measured: {name} -->\n"
    before, found, rest = document.read_text().partition(start)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise SystemExit(f"{document} has no {start.strip()} that is followed by {END}")
    document.write_text(f"{before}{start}{text.rstrip()}\n{END}{after}")


def give(args: argparse.Namespace, name: str, text: str, record: dict) -> None:
    """Prints a section, and writes it to the document and all measurements to the file, if given."""
    print(text)
    if args.update:
        update(args.update, name, text)
    if args.json:
        args.json.write_text(json.dumps({"command": command(), **record}, indent=1) + "\n")


def check(document: Path | None, names: list[str]) -> None:
    """Fails if the document lacks one of these sections, before hours are spent on measuring."""
    for name in names if document else []:
        if f"<!-- measured: {name} -->\n" not in document.read_text():
            raise SystemExit(f"{document} has no <!-- measured: {name} -->")
