"""The options shared by the measuring scripts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import environment

from peers import report

MODELS = environment.TARGET / "models"


def several(text: str) -> list[int]:
    """Numbers, separated by commas."""
    return [int(number) for number in text.split(",")]


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


SHARED = {
    "cli": {"default": str(environment.TARGET / "release/ort-cli"), "help": "our program"},
    "threads": {"type": int, "default": 1},
    "rounds": {"type": int},
    "seconds": {"type": float, "help": "the duration of each measurement"},
    "variant": {"default": "default", "help": "the .ort that ours runs"},
    "peers": {"type": names, "help": "runtimes of peers/measure.py"},
    "extra": {"default": "", "help": "further flags for our bench"},
    "markdown": {"action": "store_true", "help": "print the section of a document"},
    "update": {"type": Path, "metavar": "FILE", "help": "a document to update"},
    "json": {"type": Path, "metavar": "FILE", "help": "a file for all measurements"},
}
SEVERAL_THREADS = {"type": several, "default": "1", "help": "one or several numbers, such as 1,2"}


def parser(text: str, *shared: str, **defaults: object) -> argparse.ArgumentParser:
    """A parser of some shared options, and of `--update`; the script's own text is its help."""
    made = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in (*shared, "update"):
        made.add_argument(f"--{name}", **SHARED[name])
    for name, default in defaults.items():
        made.add_argument(f"--{name}", **SHARED[name], default=default)
    return made


def parsed(
    made: argparse.ArgumentParser, sections: Callable[[argparse.Namespace], list[str]]
) -> argparse.Namespace:
    """The parsed arguments; fails if the document lacks a section for the results."""
    args = made.parse_args()
    report.check(args.update, sections(args))
    return args


def of_all_families() -> list[Path]:
    return sorted(case for part in ("real", "built", "hard") for case in MODELS.glob(f"{part}/*"))


def parsed_with_cases(
    made: argparse.ArgumentParser,
    sections: Callable[[argparse.Namespace], list[str]],
    unless_named: Callable[[], list[Path]] = of_all_families,
) -> argparse.Namespace:
    """The same with `CASE …`, folders as `make_models.py` writes them."""
    made.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    args = parsed(made, sections)
    args.cases = args.cases or unless_named()
    if not args.cases or not all(case.is_dir() for case in args.cases):
        made.error("no models: make them with tools/make_models.py")
    return args
