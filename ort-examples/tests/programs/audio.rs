//! Audio streams.

use crate::{run, shipped};

const CHUNK: usize = 512;

/// A WAV file of these samples.
fn wav(samples: &[i16]) -> Vec<u8> {
    let mut bytes = b"RIFF....WAVEfmt ................data....".to_vec();
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    bytes
}

#[test]
fn silence_is_not_speech_and_the_state_is_passed_from_chunk_to_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let audio = folder.path().join("audio.wav");
    std::fs::write(&audio, wav(&[0; 5 * CHUNK])).unwrap();
    let args = [&shipped("silero_vad/model.ort"), audio.to_str().unwrap()];
    let printed = run(env!("CARGO_BIN_EXE_vad"), &args);
    let probabilities: Vec<_> = printed.lines().map(|line| &line[11..]).collect();
    assert_eq!(probabilities.len(), 5);
    assert!(!printed.contains("speech"), "{printed}");
    // Equal chunks, different state.
    assert!(probabilities.windows(2).any(|pair| pair[0] != pair[1]), "{printed}");
}
