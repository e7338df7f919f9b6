//! Damaged files: whatever the bytes, a session is built or a typed error comes back. Nothing
//! panics, and building never holds more than twice the file plus 16 MiB.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ort_conformance::node_cases;
use ort_ep::Reference;
use ort_format::Limits;
use ort_graph::ImportLimits;
use ort_session::{Level, ModelBytes, Session, SessionError};
use ort_testing::Rng;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const N_MUTANTS: usize = 100_000;
/// One in this many mutants is of a whole model; the others are of node cases, which are small.
const ONE_IN: u64 = 25;
const SLACK_BYTES: usize = 16 << 20;

#[test]
fn a_hundred_thousand_damaged_files_cause_no_panic() {
    let (models, small) = (models(), node_case_models());
    let mut rng = Rng::new(0x0417);
    let mut tally = [0_usize; 4];
    for mutant in 0..N_MUTANTS {
        let files = if rng.below(ONE_IN) == 0 { &models } else { &small };
        let file = &files[rng.index(files.len())];
        let other = &files[rng.index(files.len())];
        let bytes = Bytes::from(mutate(file, other, &mut rng));
        let n_bytes = bytes.len();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let outcome = catch_unwind(AssertUnwindSafe(|| build(bytes)));
        let held = MEMORY.peak_usage().saturating_sub(before);
        assert!(held <= 2 * n_bytes + SLACK_BYTES, "mutant {mutant}: {held} bytes for {n_bytes}");
        match outcome {
            Ok(Ok(())) => tally[0] += 1,
            Ok(Err(SessionError::Format(_))) => tally[1] += 1,
            Ok(Err(SessionError::Import(_))) => tally[2] += 1,
            Ok(Err(_)) => tally[3] += 1,
            Err(_) => panic!("mutant {mutant} panicked"),
        }
    }
    let [fine, format, import, other] = tally;
    println!(
        "{fine} still load; rejected: {format} as files, {import} as models, {other} as plans"
    );
    // If everything were rejected at once, little would have been tested.
    assert!(fine > N_MUTANTS / 100 && format > N_MUTANTS / 100 && import > N_MUTANTS / 100);
}

fn build(bytes: Bytes) -> Result<(), SessionError> {
    let builder = Session::builder().level(Level::Disable).threads(1);
    let limits = ImportLimits { dense_bytes: SLACK_BYTES / 2 };
    let builder = builder.provider(Arc::new(Reference)).limits(Limits::default(), limits);
    builder.commit(ModelBytes::from_owner(bytes)).map(drop)
}

/// A damaged copy of `file`.
fn mutate(file: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = file.to_vec();
    match rng.below(8) {
        0 => bytes.truncate(rng.index(bytes.len() + 1)),
        1 => splice(&mut bytes, other, rng),
        2 => {
            // An offset, length or count at its extremes.
            for _ in 0..=rng.below(3) {
                let at = rng.index(bytes.len() / 4) * 4;
                let n = u32::try_from(bytes.len()).unwrap();
                let extremes = [0, 1, n, n - 1, u32::MAX, i32::MAX.unsigned_abs(), 1 << 31];
                let value = extremes[rng.index(extremes.len())];
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => {
            for _ in 0..=rng.below(8) {
                let at = rng.index(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
    bytes
}

/// Overwrites a range of `bytes` with one of `other`.
fn splice(bytes: &mut [u8], other: &[u8], rng: &mut Rng) {
    let n = 1 + rng.index(bytes.len().min(other.len()).min(4096));
    let (to, from) = (rng.index(bytes.len() - n + 1), rng.index(other.len() - n + 1));
    bytes[to..to + n].copy_from_slice(&other[from..from + n]);
}

fn models() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let read = |name: &str| std::fs::read(folder.join(name).join("model.ort")).unwrap();
    ["ppocr_cls", "silero_vad", "magika"].map(read).into()
}

fn node_case_models() -> Vec<Vec<u8>> {
    let files = node_cases::unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
    let models = files.into_iter().filter(|(path, _)| path.ends_with(".ort"));
    models.map(|(_, bytes)| bytes.to_vec()).collect()
}
