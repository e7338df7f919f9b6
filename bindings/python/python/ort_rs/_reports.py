"""Reports on a session: its memory, and where the time of a run goes."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A text table, its first column left-aligned and the others right-aligned."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def _html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


class Memory:
    """A session's memory by kind. `kinds` has a dictionary for each: `kind`, `pieces` (their number), `bytes`, and
    `resident`, which is None if the system does not report it."""

    _HEAD = ("memory", "count", "KiB", "resident KiB")

    def __init__(self, rows: Sequence[tuple[str, int | None, int, int | None]]) -> None:
        self.kinds: list[dict[str, Any]] = [
            {"kind": kind, "pieces": pieces, "bytes": n_bytes, "resident": resident}
            for kind, pieces, n_bytes, resident in rows
        ]

    def __getitem__(self, kind: str) -> int:
        """The bytes of a kind."""
        for row in self.kinds:
            if row["kind"] == kind:
                return row["bytes"]
        raise KeyError(kind)

    def _rows(self) -> list[list[str]]:
        def number(n: int | None, unit: int = 1) -> str:
            return "" if n is None else str(-(-n // unit))

        return [
            [row["kind"], number(row["pieces"]), number(row["bytes"], 1024), number(row["resident"], 1024)]
            for row in self.kinds
        ]

    def __repr__(self) -> str:
        return _table(self._HEAD, self._rows())

    def _repr_html_(self) -> str:
        return _html(self._HEAD, self._rows())


class Profile:
    """The steps of runs, with their times. `runs` has a list for each run, of a dictionary for each step: `node`,
    `op_type`, `kernel`, `start_us`, `time_us`, `flops`, `bytes`, `inputs`, `outputs`."""

    _HEAD = ("node", "operator", "kernel", "µs", "%", "GFLOP/s")

    def __init__(self, runs: Sequence[list[dict[str, Any]]]) -> None:
        self.runs = list(runs)

    def best(self) -> list[dict[str, Any]]:
        """The steps of the fastest run, the longest first."""
        fastest = min(self.runs, key=lambda steps: sum(step["time_us"] for step in steps))
        return sorted(fastest, key=lambda step: -step["time_us"])

    def by_operator(self) -> dict[str, float]:
        """Microseconds of the fastest run for each operator, the slowest first."""
        times: dict[str, float] = {}
        for step in self.best():
            times[step["op_type"]] = times.get(step["op_type"], 0.0) + step["time_us"]
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    def _rows(self) -> list[list[str]]:
        steps = self.best()
        whole = sum(step["time_us"] for step in steps) or 1.0
        rows = []
        for step in steps:
            time = step["time_us"]
            speed = f"{step['flops'] / time / 1e3:.1f}" if step["flops"] and time else ""
            share = f"{100 * time / whole:.1f}"
            rows.append([step["node"], step["op_type"], step["kernel"], f"{time:.1f}", share, speed])
        return rows

    def __repr__(self) -> str:
        return _table(self._HEAD, self._rows())

    def _repr_html_(self) -> str:
        return _html(self._HEAD, self._rows())
