//! `.onnx` files: mutated models of node cases and networks, some with external data, some with damaged bytes.

use bytes::Bytes;
use ort_onnx::schema::{ModelProto, StringStringEntryProto};
use ort_session::ModelBytes;
use ort_testing::Rng;

use super::Attack;
use crate::corpus;
use crate::damage::damaged;
use crate::model;
use crate::stages::{builder, stages};

/// One in this many mutants is of a model of `models/`, which takes much longer than a node case.
const OF_NETWORKS: u64 = 64;
/// One in this many mutants has damaged bytes as well.
const OF_BYTES: u64 = 8;
/// One in this many mutants has external data.
const OF_EXTERNAL: u64 = 4;

pub(super) fn prepare() -> Attack {
    let (cases, networks) = (corpus::cases(), corpus::networks());
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let models = if rng.below(OF_NETWORKS) == 0 { &networks } else { &cases };
        let mut model = model::mutant(models, rng);
        mutant.label = model::label(&model);
        let data = if rng.below(OF_EXTERNAL) == 0 { external(&mut model, rng) } else { Vec::new() };
        let Ok(mut bytes) = ort_onnx::encode(&model) else {
            return crate::attack::Outcome::Rejected;
        };
        if rng.below(OF_BYTES) == 0 {
            let other = bytes.clone();
            bytes = damaged(bytes, &other, rng);
        }
        let data = ModelBytes::from_owner(Bytes::from(data));
        stages(|level| builder(level).external_data(FILE, data.clone()), bytes, rng)
    })
}

/// The name of the file in memory with the external data.
const FILE: &str = "data.bin";

/// Moves constants to a file, and returns its bytes. The places that the model states are not always right.
fn external(model: &mut ModelProto, rng: &mut Rng) -> Vec<u8> {
    let mut file = Vec::new();
    let graphs = model.graph.iter_mut();
    for tensor in graphs.flat_map(|graph| &mut graph.initializer) {
        let Some(raw) = tensor.raw_data.take() else { continue };
        let mut entries = vec![
            ("location".to_owned(), FILE.to_owned()),
            ("offset".to_owned(), file.len().to_string()),
            ("length".to_owned(), raw.len().to_string()),
        ];
        file.extend_from_slice(&raw);
        match rng.below(8) {
            0 => entries[1 + rng.index(2)].1 = model::extreme(rng).to_string(),
            1 => entries[rng.index(3)].1 = TEXTS[rng.index(TEXTS.len())].to_owned(),
            2 => drop(entries.remove(rng.index(3))),
            3 => entries.push(("checksum".to_owned(), "x".to_owned())),
            _ => {}
        }
        let entry = |(key, value)| StringStringEntryProto { key, value };
        tensor.external_data = entries.into_iter().map(entry).collect();
        tensor.data_location = 1;
    }
    if rng.below(8) == 0 {
        file.truncate(rng.index(file.len() + 1));
    }
    file
}

/// Places that lead elsewhere, and numbers that are none.
const TEXTS: [&str; 8] =
    ["../data.bin", "/etc/hostname", "", ".", "0x10", "-0", "18446744073709551616", "data.bin\0"];
