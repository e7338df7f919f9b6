//! The models in the repository, in every configuration, against the outputs of ONNX Runtime.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use ort_conformance::{Way, run_data_set};
use ort_tensor_io::find_cases;

#[test]
fn the_models_in_the_repository_give_the_stored_outputs_every_way() {
    let cases = find_cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../models")).unwrap();
    assert_eq!(cases.len(), 4);
    for way in Way::ALL.iter().filter(|way| way.is_available()) {
        for case in &cases {
            for model in &case.models {
                let session = way.builder().commit_from_file(model);
                let session = session.unwrap_or_else(|e| panic!("{} {}: {e}", way.name, case.name));
                for set in &case.data_sets {
                    let result = run_data_set(&session, files(set), case.tolerance);
                    result.unwrap_or_else(|error| panic!("{} {}: {error}", way.name, case.name));
                }
            }
        }
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, Bytes)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let path = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
    let read = |path: PathBuf| (path.clone(), Bytes::from(std::fs::read(path).unwrap()));
    entries.map(path).map(read).collect()
}
