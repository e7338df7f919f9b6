"""Classical models: the operators of ai.onnx.ml, on samples of 20 features."""

from __future__ import annotations

import numpy as np

from .elementwise import Family
from .node import Node, Operands

N_FEATURES = 20
CATEGORIES = list(range(-8, 9))
RNG = np.random.default_rng(4)


def numbers(*shape: int) -> list[float]:
    return RNG.standard_normal(shape).ravel().tolist()


def of_samples(op: str, outputs: int = 1, **attributes: object):
    def describe(d: Operands) -> Node:
        x = d.values(d.rows(N_FEATURES))
        return Node(op, [x], [], attributes, outputs=outputs, domain="ai.onnx.ml")

    return describe


def linear() -> Family:
    """Linear models."""
    found = {}
    for n in (1, 3, 10):
        weights = {"coefficients": numbers(n, N_FEATURES), "intercepts": numbers(n)}
        found[f"LinearRegressor {n}"] = of_samples("LinearRegressor", targets=n, **weights)
        transform = "LOGISTIC" if n == 1 else "SOFTMAX"
        labels = list(range(max(n, 2)))
        found[f"LinearClassifier {n}"] = of_samples(
            "LinearClassifier", 2, classlabels_ints=labels, post_transform=transform, **weights
        )
    return found


def support_vectors() -> Family:
    """Support vector machines of 300 vectors."""
    found = {}
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        kernel = {"kernel_type": kind, "kernel_params": [0.05, 0.1, 3.0]}
        kernel["support_vectors"] = numbers(300, N_FEATURES)
        found[f"SVMRegressor {kind}"] = of_samples(
            "SVMRegressor", n_supports=300, coefficients=numbers(300), rho=[0.3], **kernel
        )
        found[f"SVMClassifier {kind}"] = of_samples(
            "SVMClassifier",
            2,
            vectors_per_class=[100] * 3,
            coefficients=numbers(2, 300),
            rho=numbers(3),
            classlabels_ints=[0, 1, 2],
            **kernel,
        )
    return found


def tree(number: int, depth: int, n_targets: int) -> dict[str, list]:
    """The attributes of a complete tree, whose nodes are numbered level by level."""
    n_branches = 2**depth - 1
    branches, leaves = range(n_branches), range(n_branches, 2 * n_branches + 1)
    nodes = [*branches, *leaves]
    targets = [(leaf, target) for leaf in leaves for target in range(n_targets)]
    return {
        "nodes_treeids": [number] * len(nodes),
        "nodes_nodeids": nodes,
        "nodes_featureids": RNG.integers(0, N_FEATURES, len(nodes)).tolist(),
        "nodes_values": numbers(len(nodes)),
        "nodes_modes": ["BRANCH_LEQ"] * len(branches) + ["LEAF"] * len(leaves),
        "nodes_truenodeids": [2 * i + 1 for i in branches] + [0] * len(leaves),
        "nodes_falsenodeids": [2 * i + 2 for i in branches] + [0] * len(leaves),
        "target_treeids": [number] * len(targets),
        "target_nodeids": [leaf for leaf, _ in targets],
        "target_ids": [target for _, target in targets],
        "target_weights": numbers(len(targets)),
    }


def trees() -> Family:
    """Ensembles of trees: one, and many."""
    found = {}
    for n, depth, n_targets in ((1, 8, 1), (20, 12, 1), (100, 6, 1), (100, 6, 3)):
        made = [tree(number, depth, n_targets) for number in range(n)]
        attributes = {name: [x for one in made for x in one[name]] for name in made[0]}
        found[f"TreeEnsembleRegressor {n} of {depth}, {n_targets}"] = of_samples(
            "TreeEnsembleRegressor", n_targets=n_targets, **attributes
        )
    return found


def features() -> Family:
    """What is done to the features of samples."""
    found = {f"Normalizer {norm}": of_samples("Normalizer", norm=norm) for norm in ("MAX", "L1", "L2")}
    found["Scaler"] = of_samples("Scaler", scale=numbers(N_FEATURES), offset=numbers(N_FEATURES))
    found["Binarizer"] = of_samples("Binarizer", threshold=0.25)
    found["FeatureVectorizer"] = of_samples("FeatureVectorizer", inputdimensions=[N_FEATURES])
    found["OneHotEncoder"] = of_samples("OneHotEncoder", cats_int64s=CATEGORIES)

    def imputer(d: Operands) -> Node:
        values = {"imputed_value_floats": numbers(N_FEATURES), "replaced_value_float": 0.0}
        if not d.is_float:
            values = {"imputed_value_int64s": list(range(N_FEATURES)), "replaced_value_int64": 3}
        return Node("Imputer", [d.values(d.rows(N_FEATURES))], [], values, domain="ai.onnx.ml")

    def labels(d: Operands) -> Node:
        suffix, kind = ("floats", float) if d.is_float else ("int64s", int)
        keys = {f"keys_{suffix}": [kind(x) for x in CATEGORIES]}
        values = {f"values_{suffix}": [kind(x) for x in CATEGORIES[::-1]]}
        x = np.rint(d.values(d.rows(N_FEATURES))).astype(d.dtype)
        return Node("LabelEncoder", [x], [], keys | values, domain="ai.onnx.ml")

    found |= {"Imputer": imputer, "LabelEncoder": labels}
    for n in (1, 10):
        found[f"ArrayFeatureExtractor {n}"] = lambda d, n=n: Node(
            "ArrayFeatureExtractor",
            [d.values(d.rows(N_FEATURES))],
            [np.arange(n, dtype="i8") * 2],
            domain="ai.onnx.ml",
        )
    return found
