//! Bytes that are changed without knowledge of their format.

use ort_testing::Rng;

/// Numbers at the limits of types and of what programs expect.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    u64::MAX >> 1,
    1 << 63,
    u64::MAX,
];

/// The bytes changed in one to four places; `other` is a file of the same kind, of which parts are inserted.
pub(crate) fn damaged(mut bytes: Vec<u8>, other: &[u8], rng: &mut Rng) -> Vec<u8> {
    for _ in 0..=rng.below(4) {
        damage(&mut bytes, other, rng);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.index(bytes.len() + 1);
    let most = if rng.below(4) == 0 { 256 } else { 8 };
    let len = 1 + rng.index(most);
    let end = (at + len).min(bytes.len());
    match rng.below(10) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = byte.wrapping_add(if rng.below(2) == 0 { 1 } else { 0xff });
            }
        }
        3 | 4 => {
            let number = NUMBERS[rng.index(NUMBERS.len())].to_le_bytes();
            let n = [1, 2, 4, 8][rng.index(4)];
            let places = bytes[at..].iter_mut().zip(&number[..n]);
            places.for_each(|(byte, new)| *byte = *new);
        }
        5 => drop(bytes.drain(at..end)),
        6 => {
            let copy = bytes[at..end].to_vec();
            let to = rng.index(bytes.len() + 1);
            drop(bytes.splice(to..to, copy));
        }
        7 => {
            let from = rng.index(other.len() + 1);
            let part = other[from..].iter().take(len).copied();
            drop(bytes.splice(at..end, part));
        }
        8 => {
            let from = rng.index(other.len() + 1);
            let places = bytes[at..end].iter_mut().zip(&other[from..]);
            places.for_each(|(byte, new)| *byte = *new);
        }
        _ => {
            if rng.below(8) == 0 {
                bytes.truncate(at);
            }
        }
    }
}

/// A text changed in one to four places: tokens of it or of `tokens` are removed, repeated or replaced.
pub(crate) fn garbled(text: &str, tokens: &[&str], rng: &mut Rng) -> String {
    let mut parts: Vec<&str> = split(text);
    for _ in 0..=rng.below(4) {
        let at = rng.index(parts.len().max(1)).min(parts.len());
        let own = parts.get(rng.index(parts.len().max(1))).copied().unwrap_or_default();
        let new = if rng.below(2) == 0 { own } else { tokens[rng.index(tokens.len())] };
        match rng.below(4) {
            0 if at < parts.len() => drop(parts.remove(at)),
            1 => parts.insert(at, new),
            _ if at < parts.len() => parts[at] = new,
            _ => {}
        }
    }
    parts.concat()
}

/// The words of a list.
pub(crate) fn words(list: &'static str) -> Vec<&'static str> {
    list.split_ascii_whitespace().chain([""]).collect()
}

/// Words, and the characters between them.
fn split(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_end = |c: char| !is_word(first) || !is_word(c);
        let from = first.len_utf8();
        let n = rest[from..].find(is_end).map_or(rest.len(), |n| n + from);
        let (part, tail) = rest.split_at(if is_word(first) { n } else { from });
        parts.push(part);
        rest = tail;
    }
    parts
}
