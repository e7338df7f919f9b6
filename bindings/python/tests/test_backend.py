"""The onnx package's backend tests, by its own runner, on our backend."""

import pathlib
import re

import onnx.backend.test
import pytest

from ort_rs.backend import OrtBackend

#: Cases that do not pass, and why. It is a failure if one passes.
EXCEPT = {
    "test_image_decoder_decode_.*": "ImageDecoder is an operator that neither we nor onnxruntime have",
    "test_loop16_seq_none": "a Loop that carries an optional in and a sequence out (docs/testing.md)",
    "test_gradient_of_.*": "training: Gradient is not an inference operator",
}

#: Cases whose results are not unique, or that the runner compares with a tolerance of 1e-7 near zero.
LEFT_OUT = {
    "test_bernoulli.*": "random, and the seed does not specify the generator",
    "test_training_dropout_(default_|mask_|default_mask_)?cpu": "random as well",
    "test_dft_inverse.*": "sums of 100 terms that are zero except for rounding",
    "test_attention_4d_causal_fp16_expanded": "float16, rounded in other places",
}

_tests = onnx.backend.test.BackendTest(OrtBackend, __name__)
_tests.include(".*_cpu")
for _name in EXCEPT:
    _tests.xfail(_name)
for _name in LEFT_OUT:
    _tests.exclude(_name)

# Those of real models would be downloaded.
globals().update({name: case for name, case in _tests.test_cases.items() if "Real" not in name})


def test_as_many_cases_pass_as_the_program_passes():
    """docs/testing.md states their number; each case tests whether it passes."""
    for folder in pathlib.Path(__file__).resolve().parents:
        if (folder / "docs" / "testing.md").exists():
            text = (folder / "docs" / "testing.md").read_text()
            break
    else:
        pytest.skip("the documents are not above the tests")
    passing, whole = map(int, re.search(r"(\d+) of (\d+)\s+node cases", text).groups())
    cases = [name for name in dir(_tests.test_cases["OnnxBackendNodeModelTest"]) if name.endswith("_cpu")]
    but = [name for name in cases if any(re.match(pattern, name) for pattern in (*EXCEPT, *LEFT_OUT))]
    assert (len(cases) - len(but), len(cases)) == (passing, whole)
