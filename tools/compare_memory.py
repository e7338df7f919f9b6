#!/usr/bin/env python3
"""Compares our memory with that of onnxruntime and OpenVINO: loaded, run, dropped, in several processes.

    python3 tools/compare_memory.py [--threads 1] [--runs 5] [--processes 8] [--rounds 3]
                                    [--update docs/memory.md] [CASE ...]

Every figure comes from a separate process, and is the median over the rounds. `private` is memory that no
file backs; with several processes, what each maps alone. For a single process, sizes are relative to the state before the
first load: for a peer, Python with the runtime imported and the inputs read. The peak is sampled
every half a millisecond, until the first run ends.
`ours-cached` is a start that finds a packed file in a cache folder.

`--update FILE` writes the section `<!-- measured: SECTION -->` of a document, by default memory, and
the output of `ort-cli mem` for one model as the section `SECTION-example`.
CASE is a folder as `make_models.py` writes it; the default is four models, which are also those that
are loaded together.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import ExitStack
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, memory, options, report
from peers.report import number

CASES = ("real/ppocrv4_det", "real/ddddocr_common", "built/resnet50", "built/minilm")
EXAMPLE = "real/ddddocr_common"
CACHED = "ours-cached"
OURS = ("ours", CACHED)
DROPPED_MIB = 2
PRIVATE_MIB = 5
PEAK_RATIO = 0.7


def above(stage: dict, base: dict) -> dict[str, float]:
    return {key: stage[key] - base[key] for key in ("rss", "pss", "private")}


def our_life(args, name: str, cases: list[Path]) -> dict:
    """Memory above the base when all are loaded, have run, are dropped, and are dropped a second time."""
    stages = memory.stages([*our_command(args, name, cases), "--runs", str(args.runs)])
    base, loaded, ran, dropped = (stages[i] for i in (0, 1, 3, 4))
    life = {"base": base, "loaded": above(loaded, base), "ran": above(ran, base)}
    life["dropped"] = above(dropped, base)
    life["again"] = above(stages[7], base)
    life["code"] = dropped["purposes"]["program"] - base["purposes"]["program"]
    return life


def our_command(args, name: str, cases: list[Path]) -> list[str]:
    command = memory.ours(args.cli, args.variant, args.threads, cases)
    return [*command, *flags(args, name)]


def flags(args, name: str) -> list[str]:
    return ["--cache-dir", args.cache] if name == CACHED else []


def peer_life(args, runtime: str, cases: list[Path]) -> dict:
    with memory.PausedProcess(memory.peer(runtime, args.threads, args.runs, cases)) as held:
        base = held.wait("base")
        life = {"base": base}
        for stage in ("loaded", "ran", "dropped"):
            held.resume()
            life[stage] = above(held.wait(stage), base)
        return life


def our_peak(args, name: str, case: Path) -> float:
    model = case / f"model.{args.variant}.ort"
    command = [args.cli, "bench", str(model), "--inputs", str(case / "test_data_set_0")]
    command += ["--threads", str(args.threads), "--seconds", "0", "--hold", *flags(args, name)]
    with memory.PausedProcess(command) as held:
        return watched(held, [memory.READY])


def peer_peak(args, runtime: str, case: Path) -> float:
    """Above its memory before loading."""
    with memory.PausedProcess(memory.peer(runtime, args.threads, 1, [case])) as held:
        base = held.wait("base")["private"]
        held.resume()
        return watched(held, ["loaded", "ran"]) - base


def watched(held: memory.PausedProcess, stages: list[str]) -> float:
    """The peak of private memory until the last of these stages."""

    def wait() -> None:
        for stage in stages:
            held.note(held.wait(stage)["private"])
            if stage != stages[-1]:
                held.resume()

    thread = threading.Thread(target=wait)
    thread.start()
    held.watch(thread)
    thread.join()
    return held.peak


def our_processes(args, name: str, case: Path) -> dict[str, float]:
    """Sums over the processes, including their base."""
    command = our_command(args, name, [case])
    command += ["--runs", str(args.runs), "--processes", str(args.processes)]
    return memory.processes(command)


def peer_processes(args, runtime: str, case: Path) -> dict[str, float]:
    """Sums over the processes, above as many without a model."""
    command = memory.peer(runtime, args.threads, args.runs, [case])
    with ExitStack() as stack:
        held = [stack.enter_context(memory.PausedProcess(command)) for _ in range(args.processes)]
        sums = []
        for stage in ("base", "loaded", "ran"):
            for process in held:
                process.wait(stage)
            sizes = [memory.sizes_of(process.process.pid) for process in held]
            sums.append({
                "private": sum(size["alone"] for size in sizes),
                "pss": sum(size["pss"] for size in sizes),
            })
            for process in held if stage != "ran" else []:
                process.resume()
    return {key: sums[2][key] - sums[0][key] for key in sums[0]}


def example(args) -> str:
    """The output of our `mem` for one model."""
    words = ["mem", f"model.{args.variant}.ort", "--inputs", "test_data_set_0", "--threads", "1"]
    cli = str(Path(args.cli).resolve())
    done = subprocess.run(
        [cli, *words], check=True, capture_output=True, text=True, cwd=args.example
    )
    text = "\n".join(textwrap.fill(line, 120) if line[:1].strip() else line.rstrip()
                     for line in done.stdout.splitlines())  # fmt: skip
    return f"```text\n$ cd {args.example.name}; ort-cli {' '.join(words)}\n{text}\n```"


def median(records: list[dict]) -> dict:
    """The median of each number, at any depth."""
    merged = {}
    for key, value in records[0].items():
        values = [record[key] for record in records]
        if isinstance(value, dict):
            merged[key] = median(values)
        elif isinstance(value, (int, float)):
            merged[key] = statistics.median(values)
    return merged


def rounds(args, what) -> dict:
    """The median of each runtime's figures, alternating; None for one that does not run."""
    found: dict[str, list[dict]] = {name: [] for name in (*OURS, *args.peers)}
    for _ in range(args.rounds):
        for name in list(found):
            try:
                found[name].append(what(name))
            except (RuntimeError, OSError) as reason:
                print(f"{name}: {reason}", file=sys.stderr)
    return {name: median(records) if records else None for name, records in found.items()}


def measure(args) -> dict:
    """All measurements, by kind."""
    single, processes = {}, {}
    for case in report.announced(args.cases):

        def life(name: str, case=case) -> dict:
            if name in OURS:
                return our_life(args, name, [case]) | {"peak": our_peak(args, name, case)}
            return peer_life(args, name, [case]) | {"peak": peer_peak(args, name, case)}

        def several(name: str, case=case) -> dict:
            what = our_processes if name in OURS else peer_processes
            return what(args, name, case)

        single[case.name] = rounds(args, life)
        processes[case.name] = rounds(args, several)

    def together(name: str) -> dict:
        return (our_life if name in OURS else peer_life)(args, name, args.cases)

    print("measuring all together", file=sys.stderr, flush=True)
    return {"single": single, "processes": processes, "together": rounds(args, together)}


def single_table(measured: dict, runtimes: list[str]) -> list[list[str]]:
    columns = {
        "private loaded": lambda life: life["loaded"]["private"],
        "private after runs": lambda life: life["ran"]["private"],
        "peak private": lambda life: life["peak"],
        "PSS after runs": lambda life: life["ran"]["pss"],
    }
    return table(measured["single"], runtimes, columns)


def process_table(measured: dict, runtimes: list[str], n: int) -> list[list[str]]:
    columns = {
        f"{n} processes: private": lambda sums: sums["private"],
        f"{n} processes: PSS": lambda sums: sums["pss"],
    }
    return table(measured["processes"], runtimes, columns)


def table(by_model: dict, runtimes: list[str], columns: dict) -> list[list[str]]:
    """For each column, all runtimes side by side."""
    head = [f"{title}: {name}" if name == "ours" else name for title in columns for name in runtimes]
    lines = [["model, MiB", *head]]
    for model, of in by_model.items():
        cells = [number(value(of[name]) if of[name] else None, 1)
                 for value in columns.values() for name in runtimes]  # fmt: skip
        lines.append([model, *cells])
    return lines


def together_table(measured: dict, runtimes: list[str]) -> list[list[str]]:
    lines = [["RSS, MiB", "base", "loaded", "after runs", "dropped", "of which code", "dropped again"]]
    for name in runtimes:
        life = measured["together"][name]
        if life:
            sizes = [life["base"]["rss"], *(life[stage]["rss"] for stage in ("loaded", "ran"))]
            sizes += [life["dropped"]["rss"], life.get("code"), life.get("again", {}).get("rss")]
            lines.append([name, *(number(size, 1) for size in sizes)])
    return lines


def verdicts(args, measured: dict) -> str:
    """The targets, and the measured figures."""
    together = measured["together"]
    dropped = {name: life["dropped"]["rss"] for name, life in together.items() if life}
    text = ", ".join(f"{name} +{mib:.1f}" for name, mib in dropped.items())
    n = len(args.cases)
    ours = together["ours"]
    beyond = ours["dropped"]["rss"] - ours["code"]
    text = f"RSS after {n} sessions were loaded, run and dropped, above the base, in MiB: {text}"
    text += f" (target: +{DROPPED_MIB}; without the program's code: {beyond:+.1f})."
    for name, sums in measured["processes"].items():
        own = sums[CACHED]["without_activations"] / args.processes
        text += f" {name}, cached: {own:.1f} MiB private per process without activations and inputs"
        text += f" (target: {PRIVATE_MIB})."
    peaks = []
    for name, of in measured["single"].items():
        if of.get("ort-onnx"):
            peaks.append(f"{name} {of['ours']['peak'] / of['ort-onnx']['peak']:.2f}")
    text += f" Peak private memory over onnxruntime's: {', '.join(peaks)}"
    return text + f" (target: {PEAK_RATIO})."


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "threads", "variant", rounds=3, peers="ort-onnx,ort-default,openvino"
    )
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--processes", type=int, default=8)
    made.add_argument("--section", default="memory", help="its name in the document")
    made.add_argument("--example", type=Path, metavar="CASE", help="a model to show the output of `mem` for")
    made.set_defaults(example=options.MODELS / EXAMPLE)
    return options.parsed_with_cases(
        made,
        lambda args: [args.section, f"{args.section}-example"],
        lambda: [options.MODELS / case for case in CASES],
    )


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, ["onnxruntime", "openvino"])
    with tempfile.TemporaryDirectory() as args.cache:
        for case in args.cases:
            memory.stages(our_command(args, CACHED, [case]))
        measured = measure(args)
    runtimes = [*OURS, *args.peers]
    tables = [
        single_table(measured, runtimes),
        process_table(measured, runtimes, args.processes),
        together_table(measured, runtimes),
    ]
    text = verdicts(args, measured)
    print(f"{where}\n", "\n\n".join(map(report.as_text, tables)), f"\n{text}", sep="\n")
    if args.update:
        section = report.section(where, *map(report.as_markdown, tables), text)
        report.update(args.update, args.section, section)
        report.update(args.update, f"{args.section}-example", example(args))


if __name__ == "__main__":
    main()
