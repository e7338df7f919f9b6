#!/usr/bin/env python3
"""How much of the peak the register tiles for NEON reach, by llvm-mca: the loop of each tile next to multiply-adds alone.

    python3 tools/arm_tiles.py [--mca llvm-mca-19] [--assembly FILE]

Compiles ort-kernels for aarch64 with tools/cross.sh, unless its assembly is given. llvm-mca must be of LLVM 17 or later, which models
these processors; for the Cortex-A76 it uses the model of the Cortex-A57.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import environment

ROOT = environment.TOOLS.parent
TARGET = "aarch64-unknown-linux-gnu"
#: The tile, a part of the name of the function that contains it, and its instruction.
TILES = [
    ("gemm/neon_12x8", r"gemm9neon_12x84full", "fmla"),
    ("conv_nchwc/neon_6x2", r"conv_nchwc8neon_6x24line", "fmla"),
    ("winograd/neon_6x2", r"winograd8neon_6x28products", "fmla"),
    ("gemm_i8/neondotprod_8x8", r"neondotprod_8x84sums5innerKj8_Kb0", "sdot"),
]
CPUS = ["neoverse-n1", "neoverse-v1", "apple-m1", "cortex-a76"]
ITERATIONS = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mca", default="llvm-mca", help="the program llvm-mca")
    parser.add_argument("--assembly", type=Path, help="the assembly of ort-kernels")
    arguments = parser.parse_args()
    if not shutil.which(arguments.mca):
        print("skipped: llvm-mca is not installed")
        return 0
    lines = (arguments.assembly or compiled()).read_text().splitlines()
    print(f"| tile | {' | '.join(CPUS)} |\n|---|{'---:|' * len(CPUS)}")
    for name, function, instruction in TILES:
        loop = hottest(lines, function, instruction)
        operands = "v30.4s, v31.s[0]" if instruction == "fmla" else "v30.16b, v31.4b[0]"
        alone = [f"{instruction} v{i % 24}.4s, {operands}" for i in range(96)]
        shares = []
        for cpu in CPUS:
            # The model of the ports only: multiply-adds alone would wait for each other.
            per_cycle = 96 / simulated(arguments.mca, cpu, alone, r"Block RThroughput:\s+([\d.]+)")
            cycles = simulated(arguments.mca, cpu, loop, r"Total Cycles:\s+(\d+)") / ITERATIONS
            shares.append(count(loop, instruction) / per_cycle / cycles)
        print(f"| `{name}` | {' | '.join(f'{share:.0%}' for share in shares)} |")
    return 0


def compiled() -> Path:
    """The assembly of ort-kernels."""
    cargo = ["cargo", "rustc", "-q", "-p", "ort-kernels", "--lib", "--release", "--target", TARGET]
    flags = ["--emit", "asm", "-C", "debuginfo=0", "-C", "lto=no", "-C", "codegen-units=1"]
    subprocess.run([str(environment.TOOLS / "cross.sh"), *cargo, "--", *flags], check=True)
    folder = environment.TARGET / "cross" / "build" / TARGET / "release" / "deps"
    return max(folder.glob("ort_kernels-*.s"), key=lambda path: path.stat().st_mtime)


def count(loop: list[str], instruction: str) -> int:
    return sum(line.split()[:1] == [instruction] for line in loop)


def hottest(lines: list[str], function: str, instruction: str) -> list[str]:
    """The innermost loop with the most such instructions and otherwise the fewest."""
    loops = []
    for start in (i for i, line in enumerate(lines) if re.match(rf"_R.*{function}.*:$", line)):
        labels: dict[str, int] = {}
        inner = start
        for i in range(start, len(lines)):
            if lines[i].startswith(".Lfunc_end"):
                break
            if label := re.match(r"(\.L\w+):", lines[i]):
                labels[label[1]] = i
            target = re.match(r"\s+(?:b\.\w+|cbn?z|tbn?z|b)\s+(?:.*, )?(\.L\w+)$", lines[i])
            if target and target[1] in labels:
                # A loop that contains another starts before the end of that one.
                if (begin := labels[target[1]]) >= inner:
                    loops.append(lines[begin + 1 : i])
                inner = i
    return max(loops, key=lambda loop: (count(loop, instruction), -len(loop)))


def simulated(mca: str, cpu: str, loop: list[str], number: str) -> float:
    """A number of llvm-mca's report on iterations of a loop."""
    command = [mca, "-mtriple=aarch64", f"-mcpu={cpu}", "-mattr=+dotprod", f"-iterations={ITERATIONS}"]
    code = "\n".join(line for line in loop if not line.startswith("."))
    found = subprocess.run(command, input=code + "\n", check=True, capture_output=True, text=True)
    return float(re.search(number, found.stdout)[1])


if __name__ == "__main__":
    sys.exit(main())
