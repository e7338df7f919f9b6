"""Models of one operator each: a description generates a node of any element type and size."""

from __future__ import annotations

from .. import node_products, node_windows
from .attention import group_query, multi_head, projected, standard
from .axes import normalizations, reductions
from .classical import features, linear, support_vectors, trees
from .elementwise import broadcasts, casts, functions
from .movements import copies, fills, gathers
from .node import SIZES, TYPES, Node, Operands, write
from .products import convolutions, of_one_size, steps
from .windows import pools, samples

# The families: each function returns descriptions by name, and a description creates a node from operands.
# The first word of a name is the operator.
FAMILIES = (
    functions,
    broadcasts,
    casts,
    reductions,
    normalizations,
    copies,
    gathers,
    fills,
    pools,
    samples,
    convolutions,
    steps,
    standard,
    group_query,
    multi_head,
    projected,
    linear,
    support_vectors,
    trees,
    features,
    of_one_size(node_products.products),
    of_one_size(node_windows.convolutions),
    of_one_size(node_windows.pools),
)
