//! Damaged `.onnx` files, and damaged files of their elements: whatever the bytes, a session is built or a typed error
//! comes back. Nothing panics, and building never holds more than twice the file plus 64 MiB: of the heap, and of all
//! memory where the system reports it, since large tensors are mappings.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ort_conformance::node_cases;
use ort_ep::Reference;
use ort_format::Limits;
use ort_graph::ImportLimits;
use ort_onnx::schema::{StringStringEntryProto, TensorProto};
use ort_session::{Level, ModelBytes, Session, SessionBuilder, SessionError};
use ort_testing::Rng;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const N_MUTANTS: usize = 10_000;
/// One in this many mutants is of a whole model; the others are of node cases, which are small.
const ONE_IN: u64 = 50;
const SLACK_BYTES: usize = 64 << 20;
/// The file with the external data of models.
const EXTERNAL: &str = "external.bin";

/// A model, and its other file.
struct Files {
    model: Vec<u8>,
    external: Option<Vec<u8>>,
}

#[test]
fn ten_thousand_damaged_files_cause_no_panic() {
    let (small, large) = (node_case_models(), real_model());
    let mut rng = Rng::new(0x0417);
    let (mut tally, mut most, mut n_resident) = ([0_usize; 4], 0, 0);
    for mutant in 0..N_MUTANTS {
        let is_large = rng.below(ONE_IN) == 0;
        let files = if is_large { &large } else { &small[rng.index(small.len())] };
        let other = &small[rng.index(small.len())].model;
        let model = mutate(&files.model, other, &mut rng);
        let external = files.external.as_ref().map(|bytes| mutate(bytes, other, &mut rng));
        let n_bytes = model.len() + external.as_ref().map_or(0, Vec::len);
        let (heap, resident) = (MEMORY.current_usage(), reset_resident());
        MEMORY.reset_peak_usage();
        let outcome = catch_unwind(AssertUnwindSafe(|| build(model, external)));
        let peak = resident.and_then(|before| resident_kib("VmHWM").zip(Some(before)));
        n_resident += usize::from(peak.is_some());
        let grown = peak.map_or(0, |(peak, before)| peak.saturating_sub(before) << 10);
        let held = MEMORY.peak_usage().saturating_sub(heap).max(grown);
        most = most.max(held);
        assert!(held <= 2 * n_bytes + SLACK_BYTES, "mutant {mutant}: {held} bytes for {n_bytes}");
        match outcome {
            Ok(Ok(())) => tally[0] += 1,
            Ok(Err(SessionError::Onnx(_) | SessionError::Format(_))) => tally[1] += 1,
            Ok(Err(SessionError::Import(_) | SessionError::External(_))) => tally[2] += 1,
            Ok(Err(_)) => tally[3] += 1,
            Err(_) => panic!("mutant {mutant} panicked"),
        }
    }
    let [fine, format, import, other] = tally;
    println!(
        "{fine} still load; rejected: {format} as files, {import} as models, {other} as plans"
    );
    println!("most memory: {} KiB; resident memory was known {n_resident} times", most >> 10);
    // If everything were rejected at once, little would have been tested.
    assert!(fine > N_MUTANTS / 100 && format > N_MUTANTS / 100 && import > N_MUTANTS / 100);
}

/// Resets the system's peak of resident memory; returns the current value in KiB, if the system supports both.
fn reset_resident() -> Option<usize> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    resident_kib("VmRSS")
}

fn resident_kib(field: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn builder() -> SessionBuilder {
    Session::builder().level(Level::Disable).threads(1)
}

fn build(model: Vec<u8>, external: Option<Vec<u8>>) -> Result<(), SessionError> {
    let limits = ImportLimits { dense_bytes: 8 << 20 };
    let builder = builder().provider(Arc::new(Reference)).limits(Limits::default(), limits);
    let builder = match external {
        Some(bytes) => builder.external_data(EXTERNAL, ModelBytes::from_vec(bytes)),
        None => builder,
    };
    builder.commit(ModelBytes::from_vec(model)).map(drop)
}

/// A damaged copy of `file`.
fn mutate(file: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = file.to_vec();
    match rng.below(8) {
        0 => bytes.truncate(rng.index(bytes.len() + 1)),
        1 => {
            // A range of another file.
            let n = 1 + rng.index(bytes.len().min(other.len()).min(4096));
            let (to, from) = (rng.index(bytes.len() - n + 1), rng.index(other.len() - n + 1));
            bytes[to..to + n].copy_from_slice(&other[from..from + n]);
        }
        2 => {
            // A length or number at its extremes, as long as a varint may be.
            let at = rng.index(bytes.len());
            let n = rng.index(10.min(bytes.len() - at)) + 1;
            bytes[at..at + n].fill(0xff);
        }
        _ => {
            for _ in 0..=rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
    bytes
}

fn real_model() -> Files {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/ppocr_cls/model.onnx");
    let plain = builder().optimize_from_file(path).unwrap();
    split(&plain.to_onnx_bytes().unwrap())
}

/// The node cases as `.onnx` files, every other one with its elements in another file.
fn node_case_models() -> Vec<Files> {
    let files = node_cases::unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
    let models = files.into_iter().filter(|(path, _)| path.ends_with(".ort"));
    let onnx = models.filter_map(|(_, bytes)| {
        let plain = builder().optimize(ModelBytes::from_owner(bytes)).ok()?;
        plain.to_onnx_bytes().ok()
    });
    let files = onnx.enumerate().map(|(i, model)| match i % 2 {
        0 => Files { model, external: None },
        _ => split(&model),
    });
    files.collect()
}

/// The same model with its elements in another file, if it has any.
fn split(model: &[u8]) -> Files {
    let bytes = Bytes::copy_from_slice(model);
    let mut proto = ort_onnx::open(&bytes, &ort_onnx::Limits::default()).unwrap();
    let mut data = Vec::new();
    let graph = proto.graph.as_mut().unwrap();
    for tensor in &mut graph.initializer {
        move_out(tensor, &mut data);
    }
    let external = Some(data).filter(|data| !data.is_empty());
    Files { model: ort_onnx::encode(&proto).unwrap(), external }
}

fn move_out(tensor: &mut TensorProto, data: &mut Vec<u8>) {
    let Some(raw) = tensor.raw_data.take() else { return };
    let (offset, length) = (data.len().to_string(), raw.len().to_string());
    let entries = [("location", EXTERNAL.to_owned()), ("offset", offset), ("length", length)];
    let entry =
        |(key, value): (&str, String)| StringStringEntryProto { key: key.to_owned(), value };
    tensor.external_data = entries.into_iter().map(entry).collect();
    tensor.data_location = 1;
    data.extend_from_slice(&raw);
}
