"""Descriptions of models of one node, and their random data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RNG = np.random.default_rng(0)


class Node(NamedTuple):
    """An operator with its operands; constants are part of the model."""

    op: str
    feed: list[np.ndarray]
    constants: list[np.ndarray | None] = []
    attributes: dict = {}
    opset: int = 20
    outputs: int = 1
    domain: str = ""


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("f4")


def integers(*shape: int) -> np.ndarray:
    """Small integers."""
    return RNG.integers(0, 9, shape)
