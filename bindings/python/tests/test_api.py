"""The parts of onnxruntime's API that are missing here must be those that docs/python.md lists."""

import inspect
import pathlib
import subprocess
import sys

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

import ort_rs
from ort_rs.capi import onnxruntime_pybind11_state as ours

#: Names of onnxruntime's API that are missing here, and why; docs/python.md lists the same.
MISSING = {
    "providers of other devices": {
        "OrtEpContextData", "OrtEpContextDataBuffer", "OrtEpDevice", "OrtHardwareDevice", "OrtSyncStream",
        "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "_get_cuda_plugin_ep_library_path", "_get_nvidia_dll_paths",
        "_extract_cuda_major_version", "_get_cufft_version", "_register_bundled_cuda_plugin_ep",
    },
    "model packages and external initializers": {
        "ModelPackage", "ModelPackageComponentContext", "ModelPackageContext", "ModelPackageOptions",
        "ModelPackageWriteMode", "OrtExternalInitializerInfo",
    },
    "names that onnxruntime imports for its own use": {
        "contextlib", "import_capi_exception", "_get_package_root", "_get_package_version",
    },
}
KNOWN = set().union(*MISSING.values())


def attributes(thing):
    return {name for name in dir(thing) if not name.startswith("__") and not name.startswith("_pybind11")}


def missing():
    """Names of the package and of its classes that are missing here."""
    found = attributes(onnxruntime) - attributes(ort_rs) - {"capi"}
    for name in attributes(onnxruntime) & attributes(ort_rs):
        their = getattr(onnxruntime, name)
        # Members of enumerations are compared below.
        if inspect.isclass(their) and not hasattr(their, "__members__"):
            public = {it for it in attributes(their) if not it.startswith("_")}
            found |= {f"{name}.{it}" for it in public - attributes(getattr(ort_rs, name))}
    return found


def test_only_missing_names_are_listed():
    assert missing() == KNOWN


def test_the_list_is_in_the_docs():
    for folder in pathlib.Path(__file__).resolve().parents:
        if (folder / "docs" / "python.md").exists():
            text = (folder / "docs" / "python.md").read_text()
            break
    else:
        pytest.skip("the documents are not above the tests")
    assert [name for name in sorted(KNOWN) if f"`{name}`" not in text and not name.startswith("_")] == []


def test_functions_take_what_onnxruntimes_take():
    for where, name in [
        *((pair, name) for pair in ["InferenceSession", "IOBinding", "OrtValue"] for name in dir(getattr(onnxruntime, pair))),
    ]:
        their, our = getattr(getattr(onnxruntime, where), name), getattr(getattr(ort_rs, where), name, None)
        if name.startswith("_") or not inspect.isfunction(their) or our is None:
            continue
        parameters = list(inspect.signature(their).parameters)
        accepted = inspect.signature(our).parameters
        extra = {"memory_info"}
        assert [it for it in parameters if it not in accepted and it not in extra] == [], f"{where}.{name}"


def test_every_exception_exists_and_derives_from_exception():
    for name in dir(theirs):
        their = getattr(theirs, name)
        if inspect.isclass(their) and issubclass(their, Exception):
            assert issubclass(getattr(ours, name), Exception), name


def test_enumerations_have_the_same_members():
    for name in attributes(onnxruntime):
        members = getattr(getattr(onnxruntime, name), "__members__", None)
        if members is not None and name not in KNOWN:
            our = getattr(ort_rs, name).__members__
            assert {k: int(v) for k, v in members.items()} == {k: int(v) for k, v in our.items()}, name


def test_options_have_the_same_attributes_and_defaults():
    for name in ("SessionOptions", "RunOptions"):
        their, our = getattr(onnxruntime, name)(), getattr(ort_rs, name)()
        for attribute in attributes(their):
            value = getattr(their, attribute)
            if not callable(value):
                found = getattr(our, attribute)
                expected = int(value) if hasattr(type(value), "__members__") else value
                assert found == expected, attribute
                setattr(our, attribute, found)
        with pytest.raises(AttributeError):
            our.no_such_attribute = 1


def test_attributes_of_other_types_are_rejected():
    for attribute, value in (("intra_op_num_threads", "a"), ("intra_op_num_threads", 2.0), ("logid", 3)):
        with pytest.raises(TypeError):
            setattr(ort_rs.SessionOptions(), attribute, value)


def test_providers_are_normalized_with_the_same_warnings_and_errors(add):
    session = ort_rs.InferenceSession(add, providers=["CPUExecutionProvider"], provider_options=[{"a": 1}])
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = ort_rs.InferenceSession(add, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    for providers, options in ((["a"], []), ([("a", {})], [{}]), ([1], None)):
        with pytest.warns(UserWarning, match="The CPU provider is used"):
            ort_rs.InferenceSession(add, providers=providers, provider_options=options)
        with pytest.raises(ValueError):
            ort_rs.InferenceSession(add, providers=providers, provider_options=options, enable_fallback=0)


def test_unknown_keys_warn_and_invalid_values_are_errors(add):
    options = ort_rs.SessionOptions()
    options.add_session_config_entry("no.such.key", "1")
    assert options.get_session_config_entry("no.such.key") == "1"
    with pytest.warns(UserWarning, match="no.such.key"):
        ort_rs.InferenceSession(add, options)
    options = ort_rs.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "maybe")
    with pytest.raises(ours.InvalidArgument, match="allow_spinning"):
        ort_rs.InferenceSession(add, options)
    with pytest.raises(RuntimeError):
        options.get_session_config_entry("nothing")


def test_every_name_has_a_docstring():
    for name in ort_rs.__all__:
        thing = getattr(ort_rs, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
            members = vars(thing).items() if inspect.isclass(thing) else ()
            silent = [key for key, it in members if not key.startswith("_") and callable(it) and not it.__doc__]
            assert silent == [], name


def test_importing_the_package_imports_no_engine():
    code = "import sys, ort_rs; print(sorted({'dask', 'pandas', 'pyarrow', 'pyspark', 'ray'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


def test_messages_go_to_a_callback(add):
    messages = []
    ort_rs.set_default_logger_callback(lambda *it: messages.append(it))
    options = ort_rs.SessionOptions()
    options.log_severity_level, options.logid = 0, "mine"
    ort_rs.InferenceSession(add, options)
    ort_rs.set_default_logger_callback(None)
    assert any(severity == 1 and logid == "mine" and "steps" in text for severity, _, logid, _, text in messages)


def test_mypy_accepts_the_stubs_and_annotations(tmp_path):
    client = tmp_path / "client.py"
    client.write_text(
        "import numpy as np\nimport ort_rs as ort\n"
        "options = ort.SessionOptions()\noptions.intra_op_num_threads = 2\n"
        "session = ort.InferenceSession('m.onnx', options, cache_dir='c')\n"
        "names: list[str] = [arg.name for arg in session.get_inputs()]\n"
        "value: ort.OrtValue = session.run_with_ort_values(None, {})[0]\narray: np.ndarray = value.numpy()\n"
    )
    for target in ([str(client)], ["-p", "ort_rs"]):
        command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "--ignore-missing-imports"]
        run = subprocess.run([*command, *target], capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import ort_rs as ort\nort.SessionOptions().intra_op_num_threads = 'two'\n")
    assert subprocess.run([*command, str(wrong)], capture_output=True, cwd=tmp_path).returncode == 1
