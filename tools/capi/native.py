"""Programs in C and C++."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .library import LIBRARY, PROGRAMS, WORK, compiled, headers, run, tool
from .models import compare
from .rust import original


def program_in_c() -> str:
    return compare([str(compiled("gcc", "run.c", "-std=gnu11"))])


def program_in_cpp() -> str:
    return compare([str(compiled("g++", "run.cc", "-std=c++17"))])


def linked() -> str:
    """A program that is linked to onnxruntime's library, and so needs its release's version of the symbols, runs on ours; and the reverse."""
    theirs = WORK / "theirs" / LIBRARY.name
    theirs.parent.mkdir(exist_ok=True)
    shutil.copy(original(), theirs)
    needed = []
    for name, library in (("linked_to_theirs", theirs), ("linked_to_ours", LIBRARY)):
        program = WORK / name
        compile = [tool("gcc"), "-std=gnu11", "-O1", f"-I{headers()}", str(PROGRAMS / "run.c")]
        run([*compile, str(library), "-o", str(program)])
        needed += re.findall(r"VERS_[\d.]+", run([tool("objdump"), "-p", str(program)]))
        for folder in (theirs.parent, LIBRARY.parent):
            compare([str(program)], env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    (version,) = needed
    return f"a program that needs {version}, and one that needs none, on either library"


def threads(seconds: int = 3) -> str:
    """Eight threads that make, use and release everything on one environment."""
    path = WORK / "threads.onnx"
    onnx.save(small_layer(), str(path))
    program = compiled("gcc", "threads.c", "-std=gnu11", "-pthread")
    return f"{seconds} s: {run([str(program), str(path), str(seconds)]).strip()}"


def small_layer() -> onnx.ModelProto:
    """What threads.c computes."""
    of_rows, of_columns = np.arange(8)[:, None], np.arange(8)
    weights = numpy_helper.from_array(np.float32((of_rows + 2 * of_columns) % 5 - 2), "w")
    bias = numpy_helper.from_array(np.float32(of_columns - 4), "b")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in "xy")
    graph = helper.make_graph(nodes, "layer", [x], [y], [weights, bias])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def custom() -> str:
    """Custom operators: those of a library in C, and those of the C++ wrapper."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy")
    nodes = [
        helper.make_node("Scale", ["x"], ["scaled"], domain="test.c", factor=2.0),
        helper.make_node("Positive", ["scaled"], ["found"], "the positive one", domain="test.cpp"),
        helper.make_node("Twice", ["found"], ["doubled"], domain="test.cpp"),
        helper.make_node("Minus", ["doubled"], ["y"], domain="test.cpp"),
    ]
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("test.c", 1), ("test.cpp", 1))]
    model = helper.make_model(helper.make_graph(nodes, "custom", [x], [y]), opset_imports=opsets, ir_version=8)
    path = WORK / "custom.onnx"
    program = compiled("g++", "custom.cc", "-std=c++17")
    library = compiled("gcc", "custom_ops.c", "-std=gnu11", "-shared", "-fPIC")
    onnx.save(model, str(path))
    run([str(program), str(path), str(library)])
    return "one of C, three of C++"


def editor() -> str:
    """Models that a program builds, changes and compiles."""
    folder = WORK / "editor"
    folder.mkdir(exist_ok=True)
    run([str(compiled("g++", "editor.cc", "-std=c++17")), str(folder)])
    return "built, changed, compiled"
