"""A builder of ONNX graphs, with the names and forms of torch.onnx.export."""

from __future__ import annotations

import collections
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
BOOL = TensorProto.BOOL
# The IR version that torch.onnx.export writes for an opset.
IR_VERSION = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 24: 11}
MICROSOFT = "com.microsoft"
# The versions of the other operator sets.
VERSIONS = {MICROSOFT: 1, "ai.onnx.ml": 3}


class Graph:
    """An ONNX graph under construction, with the names of torch.onnx.export.

    A node of type Conv in the module scope "/layer1/conv1" is called "/layer1/conv1/Conv" (then
    Conv_1, Conv_2, ...) and its output "/layer1/conv1/Conv_output_0". In a graph that is the
    body of another, all names start with `prefix`.
    """

    def __init__(self, name: str, opset: int, seed: int, prefix: str = ""):
        self.name, self.opset, self.prefix = name, opset, prefix
        self.rng = np.random.default_rng(seed)
        self.inputs, self.outputs, self.nodes = [], [], []
        self.initializers: dict[str, np.ndarray] = {}
        self.used = collections.Counter()
        self.value_id = 0

    # -- declaring values --

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def param(self, name, array):
        """An initializer under its state-dict name."""
        # ascontiguousarray makes a scalar one-dimensional; reshape undoes that.
        self.initializers[name] = np.ascontiguousarray(array).reshape(np.shape(array))
        return name

    def folded(self, op_type, array):
        """An initializer as created by the exporter's constant folding, for a node of type op_type."""
        self.value_id += 1
        return self.param(f"{self.prefix}onnx::{op_type}_{self.value_id}", array)

    def weight(self, *shape, std=None):
        """Random weights for a MatMul: by default, results have the variance of the operands."""
        return self.folded("MatMul", self.normal(shape, std or shape[0] ** -0.5))

    def normal(self, shape, std):
        return (self.rng.standard_normal(shape) * std).astype(np.float32)

    # -- adding nodes --

    def op(self, op_type, *inputs, scope="", outputs=1, out=None, **attrs):
        """Adds a node; returns its output's name, or a list of them if it has several.

        `out` names the output of a node that ends the graph. A None input is an omitted one.
        """
        key = f"{self.prefix}{scope}/{op_type}"
        name = key if not self.used[key] else f"{key}_{self.used[key]}"
        self.used[key] += 1
        self.value_id += 1
        names = [out] if out else [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(op_type, [i or "" for i in inputs], names, name=name, **attrs)
        )
        return names[0] if len(names) == 1 else names

    def const(self, value, scope="", dtype=None):
        """A Constant node; Python ints become int64 and floats float32."""
        array = np.asarray(value)
        array = array.astype(dtype or (np.int64 if array.dtype.kind == "i" else np.float32))
        return self.op("Constant", scope=scope, value=numpy_helper.from_array(array))

    def shape_of(self, x, axis, scope):
        """x.size(axis) as a scalar, as tracing records it: Shape, Gather."""
        shape = self.op("Shape", x, scope=scope)
        return self.op("Gather", shape, self.const(axis, scope), scope=scope, axis=0)

    def unsqueeze(self, x, axis, scope):
        return self.op("Unsqueeze", x, self.const([axis], scope), scope=scope)

    def shape_list(self, dims, scope):
        """[dims...] as a 1-D tensor; each is an int or a scalar tensor's name.

        The exporter's C++ passes unpack such lists, so the axes they create have no scope.
        """
        parts = []
        for dim in dims:
            if isinstance(dim, int):
                parts.append(self.const([dim], scope))
            else:
                self.value_id += 1
                axes = f"onnx::Unsqueeze_{self.value_id}"
                zero = numpy_helper.from_array(np.array([0]))
                self.nodes.append(
                    helper.make_node(
                        "Constant", [], [axes], name=f"Constant_{self.value_id}", value=zero
                    )
                )
                parts.append(self.op("Unsqueeze", dim, axes, scope=scope))
        return self.op("Concat", *parts, scope=scope, axis=0)

    def reshape(self, x, shape, scope, out=None):
        """x.view(shape); shape is a list of constants or the name of a tensor."""
        shape = shape if isinstance(shape, str) else self.const(shape, scope)
        attrs = {"allowzero": 0} if self.opset >= 14 else {}
        return self.op("Reshape", x, shape, scope=scope, out=out, **attrs)

    def slice(self, x, start, end, axis, scope):
        """x[..., start:end, ...]; start and end are ints or names of 1-D tensors."""
        bounds = [b if isinstance(b, str) else self.const([b], scope) for b in (start, end)]
        tail = [self.const([axis], scope), self.const([1], scope)]
        return self.op("Slice", x, *bounds, *tail, scope=scope)

    # -- common layers --

    def conv(
        self,
        x,
        param,
        c_in,
        c_out,
        kernel,
        scope,
        stride=1,
        groups=1,
        bias=None,
        gain=1.0,
        out=None,
    ):
        """Conv2d(padding=kernel // 2) with Kaiming (fan out) weights named PARAM.weight."""
        std = gain * math.sqrt(2 * groups / (kernel * kernel * c_out))
        shape = (c_out, c_in // groups, kernel, kernel)
        inputs = [x, self.param(f"{param}.weight", self.normal(shape, std))]
        if bias is not None:
            inputs.append(self.param(f"{param}.bias", bias))
        return self.op(
            "Conv",
            *inputs,
            scope=scope,
            out=out,
            dilations=[1, 1],
            group=groups,
            kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4,
            strides=[stride] * 2,
        )

    def batchnorm(self, x, param, channels, scope, gamma=(0.5, 1.5), eps=1e-5, momentum=0.1):
        """BatchNorm2d in eval mode; calibrate_batchnorms() sets its statistics afterwards."""
        affine = [
            self.param(f"{param}.weight", self.rng.uniform(*gamma, channels).astype(np.float32)),
            self.param(f"{param}.bias", self.normal(channels, 0.2)),
            self.param(f"{param}.running_mean", np.zeros(channels, np.float32)),
            self.param(f"{param}.running_var", np.ones(channels, np.float32)),
        ]
        attrs = {"training_mode": 0} if self.opset >= 14 else {}
        return self.op(
            "BatchNormalization",
            x,
            *affine,
            scope=scope,
            epsilon=eps,
            momentum=1 - momentum,
            **attrs,
        )

    def linear(self, x, weight, bias, scope):
        """Linear on a 3-D input: MatMul by the transposed (folded) weight, then bias + x."""
        x = self.op("MatMul", x, self.folded("MatMul", weight.T), scope=scope)
        return self.op("Add", bias, x, scope=scope) if bias else x

    def maxpool(self, x, kernel, stride, padding, scope):
        return self.op(
            "MaxPool",
            x,
            scope=scope,
            ceil_mode=0,
            dilations=[1, 1],
            kernel_shape=[kernel] * 2,
            pads=[padding] * 4,
            strides=[stride] * 2,
        )

    def body(self) -> onnx.GraphProto:
        """The graph, as an attribute of a node in another graph."""
        return helper.make_graph(
            self.nodes,
            f"{self.prefix}main_graph",
            self.inputs,
            self.outputs,
            [numpy_helper.from_array(a, n) for n, a in self.initializers.items()],
        )

    def model(self) -> onnx.ModelProto:
        domains = {node.domain for node in self.nodes} - {""}
        imports = [helper.make_opsetid(domain, VERSIONS[domain]) for domain in sorted(domains)]
        return helper.make_model(
            self.body(),
            ir_version=IR_VERSION[self.opset],
            producer_name="make_models.py",
            doc_string=f"{self.name}: written by make_models.py in the form of its usual exporter",
            opset_imports=[helper.make_opsetid("", self.opset), *imports],
        )
