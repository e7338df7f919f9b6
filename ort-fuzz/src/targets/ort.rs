//! `.ort` files: of node cases, and of mutated models; most have damaged bytes.

use ort_session::{Level, ModelBytes};
use ort_testing::Rng;

use super::Attack;
use crate::corpus;
use crate::damage::damaged;
use crate::model;
use crate::stages::{builder, stages};

pub(super) fn prepare() -> Attack {
    let (files, cases) = (corpus::ort_files(), corpus::cases());
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let file = files[rng.index(files.len())].to_vec();
        let (file, label) = match rng.below(2) {
            0 => (file, "a damaged file".to_owned()),
            _ => {
                let model = model::mutant(&cases, rng);
                let label = model::label(&model);
                match ort_onnx::encode(&model).ok().and_then(to_ort) {
                    Some(bytes) => (bytes, label),
                    None => (file, "a damaged file".to_owned()),
                }
            }
        };
        mutant.label = label;
        let other = &files[rng.index(files.len())];
        let file = if rng.below(8) == 0 { file } else { damaged_once_or_more(file, other, rng) };
        stages(builder, file, rng)
    })
}

fn to_ort(onnx: Vec<u8>) -> Option<Vec<u8>> {
    builder(Level::Disable).optimize(ModelBytes::from_vec(onnx)).ok()?.to_bytes().ok()
}

/// Single bits are more frequent, as most other files are rejected at once.
fn damaged_once_or_more(mut file: Vec<u8>, other: &[u8], rng: &mut Rng) -> Vec<u8> {
    if rng.below(2) == 0 {
        return damaged(file, other, rng);
    }
    let at = rng.index(file.len());
    if let Some(byte) = file.get_mut(at) {
        *byte = [0, 1, 0x7f, 0x80, 0xff, *byte ^ 1, byte.wrapping_add(1)][rng.index(7)];
    }
    file
}
