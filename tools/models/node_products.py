"""Matrix products of every element type, and of shapes that are not large squares."""

from __future__ import annotations

import numpy as np

from .node_kinds import Node, integers, normal

DTYPES = ("f4", "f8", "f2", "i4", "u4", "i8", "u8")


def of_type(dtype: str, *shape: int) -> np.ndarray:
    """Numbers for which a product of some hundred terms stays in the range of every type."""
    return normal(*shape).astype(dtype) if dtype[0] == "f" else integers(*shape).astype(dtype)


def products() -> dict[str, Node]:
    """Matrix products, by type."""
    found = {}
    for dtype in DTYPES:
        def some(*shape: int, dtype: str = dtype) -> np.ndarray:
            return of_type(dtype, *shape)

        for size in ((32, 64, 48), (128, 256, 192), (512, 512, 512)):
            m, k, n = size
            name = f"MatMul {dtype} {m}x{k}x{n}"
            found[name] = Node("MatMul", [some(m, k)], [some(k, n)])
            found[f"{name} input"] = Node("MatMul", [some(m, k), some(k, n)])
        found[f"MatMul {dtype} row"] = Node("MatMul", [some(1, 512)], [some(512, 1000)])
        found[f"MatMul {dtype} column"] = Node("MatMul", [some(512, 1000), some(1000, 1)])
        found[f"MatMul {dtype} batch"] = Node("MatMul", [some(12, 64, 32), some(12, 32, 64)])
        if dtype[0] == "f":
            how = {"transB": 1, "alpha": 0.5, "beta": 2.0}
            operands = [some(64, 256), some(96, 256), some(96)]
            found[f"Gemm {dtype}"] = Node("Gemm", operands, [], how)
    return found | skinny()


def skinny() -> dict[str, Node]:
    """f32 products with few rows, columns or terms."""
    found = {}
    for m in (1, 2, 4):
        for k, n in ((64, 1000), (1024, 1024)):
            how, operands = {"transB": 1}, [normal(m, k), normal(n, k)]
            found[f"FusedMatMul {m}x{k}x{n} transB"] = Node(
                "FusedMatMul", operands, [], how, domain="com.microsoft"
            )
    found["MatMul batch column"] = Node("MatMul", [normal(64, 128, 64), normal(64, 64, 1)])
    found["MatMul constant column"] = Node("MatMul", [normal(4096, 128)], [normal(128, 1)])
    found["MatMul batch of dots"] = Node("MatMul", [normal(512, 1, 64), normal(512, 64, 1)])
    how = {"beta": 0.5, "alpha": 1.5}
    operands = [normal(1000, 5), normal(5, 300), normal(1000, 300)]
    found["Gemm 5 terms"] = Node("Gemm", operands, [], how)
    found["Gemm 5 terms bias"] = Node("Gemm", [normal(1000, 5)], [normal(5, 300), normal(300)], how)
    found["MatMul 5 terms"] = Node("MatMul", [normal(1000, 5)], [normal(5, 300)])
    found["MatMul 4 columns"] = Node("MatMul", [normal(1000, 256)], [normal(256, 4)])
    found["MatMul 4 columns input"] = Node("MatMul", [normal(1000, 256), normal(256, 4)])
    return found
