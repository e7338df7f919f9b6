#!/usr/bin/env python3
"""Lists the attributes of every operator, for the test that ours support them with the same defaults.

    python3 tools/list_operator_attributes.py > ort-ops/tests/attributes.txt

A line contains the domain, the operator, its since-version, the minimum numbers of inputs and
outputs, and its attributes: `name:type`, with `!` after a required name and `=value` for
a default. The sources are the onnx package for standard operators, and onnxruntime for its own.
"""

from __future__ import annotations

import environment

environment.enter()

import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

# Domains of other providers, or internal to onnxruntime.
LEFT_OUT = {"com.ms.internal.nhwc"}


def default_of(attribute):
    """The default of an attribute, which onnxruntime returns as a message's bytes."""
    proto = getattr(attribute, "default_value", None)
    if proto is None:
        proto = onnx.AttributeProto()
        proto.ParseFromString(attribute._default_value)
    return onnx.helper.get_attribute_value(proto) if proto.name else None


def printed(value) -> str:
    if isinstance(value, list):
        return ",".join(map(printed, value))
    return value.decode() if isinstance(value, bytes) else repr(value)


def described(name: str, attribute) -> str:
    kind = str(attribute.type).rpartition(".")[2].lower()
    default = default_of(attribute)
    text = f"{name}{'!' * attribute.required}:{kind}"
    return text if default is None else f"{text}={printed(default)}"


def row(schema) -> str:
    attributes = sorted(schema.attributes.items())
    head = [schema.domain or "ai.onnx", schema.name, schema.since_version]
    head += [schema.min_input, schema.min_output]
    return " ".join([*map(str, head), *(described(*attribute) for attribute in attributes)])


def main() -> None:
    standard = onnx.defs.get_all_schemas_with_history()
    own = state.get_all_operator_schema()
    schemas = {}
    for schema in [*standard, *own]:
        key = (schema.domain, schema.name, schema.since_version)
        if schema.domain not in LEFT_OUT and not schema.deprecated:
            schemas.setdefault(key, schema)
    sources = f"onnx {onnx.__version__}, onnxruntime {ort.__version__}"
    print(f"# {sources}; made by tools/list_operator_attributes.py")
    for key in sorted(schemas):
        print(row(schemas[key]))


if __name__ == "__main__":
    main()
