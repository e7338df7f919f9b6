"""The tests of the crate `ort`: those of its published source, with models that this file makes in place of those of its repository."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .library import LIBRARY, PROGRAMS, WORK, Skipped, run
from .rust import loading, original

FOLDER = WORK / "ort-tests"
FEATURES = "std,ndarray,half,num-complex,tracing,load-dynamic,api-31"
DOMAIN = "test.customop"
#: Why tests fail here. Those of CUDA, and those that download a model, are not compiled.
REASONS = {
    "test_identity_graph": "an input without dimensions takes one element",
    "test_sequence_to_from_type_info": "a dimension has a size or a name",
    "test_preallocated_output": "not implemented",
    "device::": "there are no devices to select",
    "init_from": "the example does not compile",
    "with_max_shape_override": "memory is planned for each run",
    "with_gqa_value_layout": "not implemented",
}


def ort_tests() -> str:
    """The tests of the crate `ort`, and the examples of its documentation."""
    sources()
    models(FOLDER / "tests" / "data")
    command = ["cargo", "test", "-q", "--no-default-features", "--features", FEATURES, "--target-dir", str(WORK / "cargo")]
    try:
        run([*command, "--lib", "--no-run"], cwd=FOLDER)
    except AssertionError as reason:
        raise Skipped(f"the tests do not build: {reason}") from None
    # That these pass on onnxruntime's library shows that it has the declarations which both tables are made by.
    _, failed = tested([*command, "--lib"], original())
    assert failed <= {"value::impl_tensor::element::tests::test_create_extract_types"}, f"failed on onnxruntime: {failed}"
    n_tests, failed = tested([*command, "--lib"], LIBRARY)
    n_examples, failed_examples = tested([*command, "--doc"], LIBRARY)
    assert n_tests >= 55 and n_examples >= 105, f"only {n_tests} tests and {n_examples} examples passed"
    failed |= failed_examples
    unknown = sorted(name for name in failed if not cause(name))
    assert not unknown, f"failed: {', '.join(unknown)}"
    left_out = "; ".join(f"{part}: {REASONS[part]}" for part in REASONS if any(part in name for name in failed))
    return f"{n_tests} tests and {n_examples} examples passed, {len(failed)} failed ({left_out})"


def tested(command: list[str], library: Path) -> tuple[int, set[str]]:
    """How many tests passed on a library, and which failed."""
    done = subprocess.run(command, cwd=FOLDER, env=loading(library), capture_output=True, text=True)
    passed = re.search(r"(\d+) passed; \d+ failed", done.stdout)
    assert passed, f"the tests ended: {done.stderr[-600:]}"
    return int(passed[1]), set(re.findall(r"^---- (.*) stdout ----$", done.stdout, re.MULTILINE))


def cause(name: str) -> str | None:
    """Why a test fails, if it may."""
    return next((REASONS[part] for part in REASONS if part in name), None)


def sources() -> None:
    """Copies the source of the crate, as a workspace of its own."""
    text = run(["cargo", "metadata", "--format-version", "1", "--locked"], cwd=PROGRAMS / "ort")
    (package,) = (it for it in json.loads(text)["packages"] if it["name"] == "ort")
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(Path(package["manifest_path"]).parent, FOLDER)
    manifest = FOLDER / "Cargo.toml"
    # ureq downloads models, which no test here does, and needs the system's TLS.
    text = re.sub(r"(?ms)^\[dev-dependencies\.ureq\].*?(?=^\[)", "", manifest.read_text())
    manifest.write_text(text + "\n[workspace]\n")


def models(folder: Path) -> None:
    """The models that the tests open, with the names and shapes that they use."""
    folder.mkdir(parents=True)
    for name, model in (
        ("upsample", upsample()),
        ("custom_op_test", custom_ops()),
        ("attr_tester", attributes()),
        ("copy_2_inputs_2_outputs", copies("CopyTensorArrayAllVariadic", 2)),
        ("copy_3_inputs_3_outputs", copies("CopyTensorArrayCombined", 3)),
        ("lora_model", lora()),
        ("overridable_initializer", overridable()),
        ("vectorizer", vectorizer()),
    ):
        onnx.save(model, folder / f"{name}.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "upsample.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(folder / "upsample.onnx"), options, providers=["CPUExecutionProvider"])
    adapter = onnxruntime.AdapterFormat()
    columns, rows = np.float32([[3], [4], [5], [6]]), np.float32([[7, 8, 9, 10]])
    values = {"lora_param_a": columns, "lora_param_b": rows}
    adapter.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in values.items()})
    adapter.export_adapter(str(folder / "adapter.orl"))


def values(dtype: int, **shapes: list) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, dtype, shape) for name, shape in shapes.items()]


def model(nodes, inputs, outputs, initializers=(), opset=21, domain="", **more) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers, **more)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def floats(name: str, array) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(array, np.float32), name)


def upsample() -> onnx.ModelProto:
    """Twice the height and width of images whose channels come last."""
    nodes = [
        helper.make_node("Transpose", ["image"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Resize", ["planes", "", "scales"], ["larger"], mode="nearest"),
        helper.make_node("Transpose", ["larger"], ["Identity:0"], perm=[0, 2, 3, 1]),
    ]
    inputs = values(TensorProto.FLOAT, image=["unk__31", "unk__32", "unk__33", 3])
    outputs = values(TensorProto.FLOAT, **{"Identity:0": ["n", "2height", "2width", 3]})
    return model(nodes, inputs, outputs, [floats("scales", [1, 1, 2, 2])], opset=19)


def custom_ops() -> onnx.ModelProto:
    nodes = [
        helper.make_node("CustomOpOne", ["x", "y"], ["z"], domain=DOMAIN),
        helper.make_node("CustomOpTwo", ["z"], ["found"], domain=DOMAIN),
    ]
    inputs = values(TensorProto.FLOAT, x=[3, 5], y=[3, 5])
    return model(nodes, inputs, values(TensorProto.INT32, found=[3, 5]), domain=DOMAIN)


def attributes() -> onnx.ModelProto:
    numbers = {"a_int": 1, "a_float": 2.0, "ints": [3, 4, 5], "floats": [6.0, 7.0, 8.0]}
    texts = {"a_string": "iamastring", "strings": ["more", "strings"]}
    nodes = [
        helper.make_node("AttrTesterIntFloat", ["input_0"], ["m"], domain=DOMAIN, **numbers),
        helper.make_node("AttrTesterString", ["m"], ["output_0"], domain=DOMAIN, **texts),
    ]
    return model(nodes, values(TensorProto.FLOAT, input_0=["d"]), values(TensorProto.FLOAT, output_0=["d"]), domain=DOMAIN)


def copies(operator: str, n: int) -> onnx.ModelProto:
    inputs, outputs = ([f"{kind}_{i}" for i in range(n)] for kind in ("input", "output"))
    of_each = (values(TensorProto.FLOAT, **{name: [None] for name in names}) for names in (inputs, outputs))
    return model([helper.make_node(operator, inputs, outputs, domain=DOMAIN)], *of_each, domain=DOMAIN)


def lora() -> onnx.ModelProto:
    """A product with a correction of low rank, whose parameters are empty unless an adapter replaces them."""
    nodes = [
        helper.make_node("MatMul", ["input", "weight"], ["product"]),
        helper.make_node("MatMul", ["input", "lora_param_a"], ["low"]),
        helper.make_node("MatMul", ["low", "lora_param_b"], ["correction"]),
        helper.make_node("Add", ["product", "correction"], ["output"]),
    ]
    inputs = values(TensorProto.FLOAT, input=[4, 4], lora_param_a=[4, "rank"], lora_param_b=["rank", 4])
    weight = floats("weight", np.arange(1, 17).reshape(4, 4))
    empty = [floats("lora_param_a", np.zeros((4, 0))), floats("lora_param_b", np.zeros((0, 4)))]
    return model(nodes, inputs, values(TensorProto.FLOAT, output=[4, 4]), [weight, *empty])


def overridable() -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "F1"], ["y"])]
    inputs = values(TensorProto.FLOAT, x=[1, 1], F1=[1, 1])
    return model(nodes, inputs, values(TensorProto.FLOAT, y=[1, 1]), [floats("F1", [[0]])])


def vectorizer() -> onnx.ModelProto:
    """Counts of words among texts."""
    words = ["and", "document", "first"]
    counted = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
    node = helper.make_node(
        "TfIdfVectorizer", ["string_input"], ["variable"], mode="TF", ngram_indexes=[0, 1, 2], pool_strings=words, **counted
    )
    inputs = values(TensorProto.STRING, string_input=["n"])
    return model([node], inputs, values(TensorProto.FLOAT, variable=[len(words)]))
