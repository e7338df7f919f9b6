//! Tensors in `.pb` and `.npy` files. What can be read can be written, and is then equal.

use bytes::Bytes;
use ort_session::{DType, Tensor, Value};
use ort_tensor_io::{Tolerance, compare, npy, pb};

use super::Attack;
use crate::attack::Outcome;
use crate::corpus;
use crate::damage::damaged;

const KINDS: [pb::Kind; 4] =
    [pb::Kind::Tensor, pb::Kind::Sequence, pb::Kind::Optional, pb::Kind::Map];

pub(super) fn prepare() -> Attack {
    let files = corpus::files().into_iter().filter(|(path, _)| path.ends_with(".pb"));
    let pb_files: Vec<Bytes> = files.map(|(_, bytes)| bytes).collect();
    let npy_files = npy_files(&pb_files);
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let is_npy = rng.below(2) == 0;
        mutant.label = if is_npy { ".npy" } else { ".pb" }.to_owned();
        let files = if is_npy { &npy_files } else { &pb_files };
        let file = files[rng.index(files.len())].to_vec();
        let file = Bytes::from(damaged(file, &files[rng.index(files.len())], rng));
        if is_npy {
            return of_npy(&file);
        }
        let kind = match rng.below(4) {
            0 => KINDS[rng.index(KINDS.len())],
            _ => pb::Kind::guess(&file),
        };
        of_pb(&file, kind)
    })
}

/// The tensors of the files, and one of each kind that numpy has and ONNX writes in another way.
fn npy_files(pb_files: &[Bytes]) -> Vec<Bytes> {
    let tensors = pb_files.iter().filter_map(|file| match pb::decode(file, pb::Kind::Tensor) {
        Ok(pb::Named { value: Value::Tensor(tensor), .. }) => Some(tensor),
        _ => None,
    });
    let texts = Tensor::from_strings(&[2], vec!["ä".to_owned(), "bcd".to_owned()]);
    let empty = DType::ALL.iter().map(|dtype| Tensor::zeros(*dtype, &[2, 0]));
    let more = empty.chain([texts]).flatten();
    tensors.chain(more).filter_map(|tensor| npy::encode(&tensor).ok()).map(Bytes::from).collect()
}

fn of_npy(file: &Bytes) -> Outcome {
    let Ok(tensor) = npy::decode(file) else { return Outcome::Rejected };
    let Ok(again) = npy::encode(&tensor) else { return Outcome::Rejected };
    match npy::decode(&Bytes::from(again)) {
        Ok(again) => equal(&Value::Tensor(tensor), &Value::Tensor(again)),
        Err(error) => Outcome::Found(format!("what was written cannot be read: {error}")),
    }
}

fn of_pb(file: &Bytes, kind: pb::Kind) -> Outcome {
    let Ok(named) = pb::decode(file, kind) else { return Outcome::Rejected };
    let Ok(again) = pb::encode(&named.name, &named.value) else { return Outcome::Rejected };
    match pb::decode(&Bytes::from(again), kind) {
        Ok(again) if again.name != named.name => Outcome::Found("another name".to_owned()),
        Ok(again) => equal(&named.value, &again.value),
        Err(error) => Outcome::Found(format!("what was written cannot be read: {error}")),
    }
}

fn equal(value: &Value, again: &Value) -> Outcome {
    match compare(value, again, Tolerance::EXACT) {
        Ok(()) => Outcome::Accepted,
        Err(difference) => Outcome::Found(format!("read again, it differs: {difference}")),
    }
}
