//! Streams audio through Silero's voice activity detection, whose state is passed from one chunk to the next.
//!
//! The input is a WAV file of 16-bit samples, one channel, 16 kHz.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;

use ort_session::{DType, Session, Tensor};

/// Samples in a chunk: 32 ms.
const CHUNK: usize = 512;
/// The model also sees the end of the chunk before.
const CONTEXT: usize = 64;
const RATE: i64 = 16_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(audio)) = (args.next(), args.next()) else {
        return Err("usage: vad MODEL AUDIO.wav".into());
    };
    // A run takes less than a millisecond: more threads would only add synchronization.
    let session = Session::builder().threads(1).commit_from_file(model)?;
    let mut detector = Detector::new(&session)?;
    let mut time = 0.0;
    for chunk in samples(&std::fs::read(audio)?)?.chunks_exact(CHUNK) {
        let probability = detector.next(chunk)?;
        println!(
            "{time:7.3} s  {probability:.3}{}",
            if probability > 0.5 { "  speech" } else { "" }
        );
        time += 0.032;
    }
    Ok(())
}

/// One audio stream. Many streams can share a session.
struct Detector<'a> {
    session: &'a Session,
    state: Tensor,
    /// The context, followed by the chunk.
    window: Vec<f32>,
    rate: Tensor,
}

impl<'a> Detector<'a> {
    fn new(session: &'a Session) -> Result<Self, Box<dyn Error>> {
        let state = Tensor::zeros(DType::F32, &[2, 1, 128])?;
        Ok(Self { session, state, window: vec![0.0; CONTEXT + CHUNK], rate: Tensor::scalar(RATE) })
    }

    /// The probability that the chunk is speech.
    fn next(&mut self, chunk: &[f32]) -> Result<f32, Box<dyn Error>> {
        self.window.copy_within(CHUNK.., 0);
        self.window[CONTEXT..].copy_from_slice(chunk);
        let x = Tensor::from_slice(&[1, CONTEXT + CHUNK], &self.window)?;
        let inputs = [("input", &x), ("state", &self.state), ("sr", &self.rate)];
        let outputs = self.session.run(inputs)?;
        self.state = outputs[1].as_tensor()?.clone(); // shares its memory
        Ok(outputs[0].as_tensor()?.as_slice::<f32>()?[0])
    }
}

/// The samples of a WAV file, from -1 to 1.
fn samples(wav: &[u8]) -> Result<Vec<f32>, Box<dyn Error>> {
    let data = wav.windows(4).position(|tag| tag == b"data").ok_or("not a WAV file")?;
    let bytes = wav.get(data + 8..).ok_or("the WAV file is truncated")?;
    let sample = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32768.0;
    Ok(bytes.chunks_exact(2).map(sample).collect())
}
