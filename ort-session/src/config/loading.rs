//! Keys for files: loading and saving.

use ort_loader::Load;

use super::key::Values::{Choices, Flag, Text};
use super::key::{ANY_FLAG, ANY_NUMBER, ConfigKey, acts, idle, only};

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.use_memory_mapped_ort_model",
        "1",
        Flag(|b, is_on| b.load = if is_on { Load::Mapped } else { Load::Read }),
        "Whether a file is mapped, or read into memory. ONNX Runtime reads it by default. A model in \
         memory is used as it is.",
    )
    .method("load")
    .flag("--load"),
    idle(
        "session.use_ort_model_bytes_directly",
        "1",
        ANY_FLAG,
        "Bytes are always used in place: the caller passes their owner, which lives as long as \
         the last tensor. A copy cannot be requested.",
    ),
    idle(
        "session.use_ort_model_bytes_for_initializers",
        "1",
        ANY_FLAG,
        "Constants of any size are slices of the model's bytes; only misaligned ones are copied.",
    ),
    idle(
        "session.load_model_format",
        "nothing",
        Choices(&[("", |_| {}), ("ORT", |_| {}), ("ONNX", |_| {})]),
        "The format is detected from the file's bytes.",
    ),
    acts(
        "session.optimized_model_filepath",
        "nothing",
        Text("a path that ends with .ort", |b, path| {
            b.saved.path = Some(path.into()).filter(|_| !path.is_empty());
        }),
        "Building a session writes the optimized model to this path, atomically. Another file \
         extension is an error unless session.save_model_format is `ORT`.",
    )
    .method("optimized_model")
    .flag("ort-cli optimize -o"),
    acts(
        "session.save_model_format",
        "nothing",
        Choices(&[("", |b| b.saved.is_ort = false), ("ORT", |b| b.saved.is_ort = true)]),
        "Whether session.optimized_model_filepath is an `.ort` file regardless of its extension.",
    )
    .refuses("ONNX", "the optimized graph can be saved as an `.ort` file only"),
    only(
        "session.optimized_model_external_initializers_file_name",
        &[""],
        "an `.ort` file contains its weights; only ONNX models have external data",
    ),
    idle(
        "session.optimized_model_external_initializers_min_size_in_bytes",
        "1024",
        ANY_NUMBER,
        "Weights are never stored as external data.",
    ),
    acts(
        "session.model_external_initializers_file_folder_path",
        "nothing",
        Text("a folder", |b, path| {
            b.external.folder = Some(path.into()).filter(|_| !path.is_empty());
        }),
        "The folder with the external data of a `.onnx` model, instead of the model's own. Links \
         in it are followed.",
    )
    .method("external_data_folder"),
    idle(
        "session.use_external_initializer_file_buffers_directly",
        "0",
        ANY_FLAG,
        "An `.ort` file contains its weights.",
    ),
    idle(
        "session.save_external_prepacked_constant_initializers",
        "0",
        ANY_FLAG,
        "It concerns external data of ONNX models, also in ONNX Runtime. Packed weights are \
         stored by `cache_dir`, or by `ort-cli optimize --pack`.",
    ),
    idle(
        "session.strict_shape_type_inference",
        "0",
        ANY_FLAG,
        "Type mismatches are always errors. A declared shape that differs from the inferred one \
         is a warning in `Metadata::warnings`, and the inferred one is used.",
    ),
    idle(
        "session.allow_released_opsets_only",
        "1",
        ANY_FLAG,
        "An unsupported operator version is an error, whether or not its opset is released.",
    ),
    idle("session.disable_model_compile", "0", ANY_FLAG, "Models are not compiled for devices."),
    only("session.compile_only", &["0"], "models are not compiled for devices"),
];
