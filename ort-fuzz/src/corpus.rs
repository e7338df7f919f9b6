//! What mutants are made of: the node cases of the standard, and the models of `models/`.

use std::path::Path;

use bytes::Bytes;
use ort_conformance::node_cases;
use ort_onnx::schema::ModelProto;
use ort_session::{Level, Load, ModelBytes, Session};

/// The files of the node cases: `.ort` and `.pb`.
pub(crate) fn files() -> node_cases::Files {
    node_cases::unpack(include_bytes!("../../ort-conformance/fixtures/node_cases.bin"))
        .unwrap_or_default()
}

/// The models of the node cases, as `.ort` files.
pub(crate) fn ort_files() -> Vec<Bytes> {
    let files = files().into_iter();
    files.filter(|(path, _)| path.ends_with(".ort")).map(|(_, bytes)| bytes).collect()
}

/// The models of the node cases.
pub(crate) fn cases() -> Vec<ModelProto> {
    ort_files().into_iter().filter_map(|bytes| parsed(ModelBytes::from_owner(bytes))).collect()
}

/// The smallest models of `models/`.
pub(crate) fn networks() -> Vec<ModelProto> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
    let of = |name| ModelBytes::from_path(folder.join(name).join("model.ort"), Load::Read);
    let networks = ["ppocr_cls", "silero_vad", "magika"].map(|name| parsed(of(name).ok()?));
    networks.into_iter().flatten().collect()
}

fn parsed(bytes: ModelBytes) -> Option<ModelProto> {
    let builder = Session::builder().level(Level::Disable).threads(1);
    let onnx = builder.optimize(bytes).ok()?.to_onnx_bytes().ok()?;
    ort_onnx::open(&onnx.into(), &ort_onnx::Limits::default()).ok()
}
