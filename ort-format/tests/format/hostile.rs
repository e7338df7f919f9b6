//! Corrupted bytes. Nothing panics; accepted files can be traversed, converted to records and written again.

use ort_format::{Limits, open, write};

use crate::models;

/// A small pseudo-random generator (xorshift, Marsaglia 2003), so that tests repeat exactly.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn files() -> Vec<Vec<u8>> {
    models::all().iter().map(|(_, record)| write(record).unwrap()).collect()
}

/// Whether the bytes are accepted; if so, asserts that the content can be written.
fn survives(bytes: &[u8]) -> bool {
    let Ok(file) = open(bytes, &Limits::default()) else { return false };
    let again = write(&file.to_record());
    assert!(again.is_ok(), "{again:?}");
    true
}

#[test]
fn a_file_cut_short_is_refused() {
    for file in files() {
        // What is cut off may be padding, at most up to the alignment of a tensor.
        for length in 0..file.len() {
            let accepted = survives(&file[..length]);
            assert!(!accepted || file.len() - length < 64, "{length} of {}", file.len());
        }
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    for file in files() {
        for position in 0..file.len() {
            for bit in [0, 3, 7] {
                let mut file = file.clone();
                file[position] ^= 1 << bit;
                survives(&file);
            }
        }
    }
}

#[test]
fn extreme_words_do_no_harm() {
    for file in files() {
        for position in (0..file.len() - 4).step_by(4) {
            for word in [0, 1, 4, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, u32::MAX] {
                let mut file = file.clone();
                file[position..position + 4].copy_from_slice(&word.to_le_bytes());
                survives(&file);
            }
        }
    }
}

#[test]
fn spliced_files_do_no_harm() {
    let files = files();
    let mut random = Random(0x5eed);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut file = files[random.below(files.len())].clone();
        let other = &files[random.below(files.len())];
        for _ in 0..=random.below(3) {
            let length = 1 + random.below(32);
            let from = random.below(other.len().saturating_sub(length).max(1));
            let to = random.below(file.len().saturating_sub(length).max(1));
            let length = length.min(other.len() - from).min(file.len() - to);
            file[to..to + length].copy_from_slice(&other[from..from + length]);
        }
        accepted += usize::from(survives(&file));
    }
    // Splices within tensors and strings leave a file valid: the traversal above did happen.
    assert!(accepted > 500, "{accepted}");
}
