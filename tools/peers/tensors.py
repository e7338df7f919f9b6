"""The reference tensors of a case, as numpy arrays or lists of them."""

from __future__ import annotations

from pathlib import Path

from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

PROTOS = {
    "tensor": (TensorProto, numpy_helper.to_array),
    "seq": (SequenceProto, numpy_helper.to_list),
    "optional": (OptionalProto, numpy_helper.to_optional),
}


def read(folder: Path, kind: str, types: list[str] | None = None) -> dict:
    """The values of KIND_J.pb by name, in order of J.

    `types` are those of the graph's values, such as "seq(tensor(float))"; by default, all are
    tensors.
    """
    values = {}
    paths = folder.glob(f"{kind}_*.pb")
    for path in sorted(paths, key=lambda path: int(path.stem.rsplit("_", 1)[1])):
        j = int(path.stem.rsplit("_", 1)[1])
        outer = types[j].split("(")[0] if types else "tensor"
        message, convert = PROTOS[outer]
        proto = message()
        proto.ParseFromString(path.read_bytes())
        values[proto.name] = convert(proto)
    return values
