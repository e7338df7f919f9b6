//! Memory for packed constants: many in one block, which is a huge page where the system has them.
//!
//! Small pages are the largest part of loading a small model with Winograd's algorithm: 0.3 ms a MiB (Linux 6.18 in a
//! virtual machine), next to 0.06 ms in a huge page.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ort_ep::Packed;
use ort_tensor::AlignedBuf;

/// The size of a block: eight huge pages, which take memory only when they are used.
const BLOCK_BYTES: usize = 16 << 20;

/// Fewer bytes are an allocation on the heap.
const SMALL_BYTES: usize = 32 << 10;

/// Before there are this many bytes, each packed constant has its own mapping: a model that has no more does not pay for a
/// block.
const ALONE_BYTES: usize = 512 << 10;

/// At most one block for each of these bytes is in use, and one in addition: each may waste a huge page.
const BYTES_A_BLOCK: usize = 8 << 20;

/// What `pack` makes of `n_bytes` zeros in memory of their own; `None` if there is no memory for it.
pub(super) fn alone(n_bytes: usize, pack: impl FnOnce(&mut [u8])) -> Option<Packed> {
    let mut buf = AlignedBuf::try_lasting(n_bytes)?;
    pack(buf.as_mut());
    Some(Packed::new(Bytes::from_owner(buf)))
}

/// The blocks of a session that is being compiled.
#[derive(Debug, Default)]
pub(super) struct Blocks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Those that no thread is using.
    idle: Vec<Block>,
    /// How many are in use.
    n_busy: usize,
    /// The bytes of all packed constants that fit in a block and are not small.
    n_bytes: usize,
}

#[derive(Debug)]
struct Block {
    buf: AlignedBuf,
    used: usize,
    parts: Vec<(Packed, Range<usize>)>,
}

impl Blocks {
    /// What `pack` makes of `n_bytes` zeros; `None` if there is no memory for it.
    pub(super) fn pack(&self, n_bytes: usize, pack: impl FnOnce(&mut [u8])) -> Option<Packed> {
        let Some(mut block) = self.take(n_bytes) else { return alone(n_bytes, pack) };
        let part = block.used..block.used + n_bytes;
        block.buf.populate(part.clone());
        pack(&mut block.buf.as_mut()[part.clone()]);
        let packed = Packed::default();
        block.used = part.end.next_multiple_of(AlignedBuf::ALIGN);
        block.parts.push((packed.clone(), part));
        let mut state = self.state();
        state.n_busy -= 1;
        state.idle.push(block);
        Some(packed)
    }

    /// A block with room, for this thread alone; `None` if a separate allocation is better.
    fn take(&self, n_bytes: usize) -> Option<Block> {
        if !(SMALL_BYTES..=BLOCK_BYTES).contains(&n_bytes) || !AlignedBuf::is_mapping(BLOCK_BYTES) {
            return None;
        }
        let mut state = self.state();
        state.n_bytes = state.n_bytes.saturating_add(n_bytes);
        let has_room = |block: &Block| BLOCK_BYTES - block.used >= n_bytes;
        let block = match state.idle.iter().position(has_room) {
            Some(at) => state.idle.swap_remove(at),
            None if state.n_bytes < ALONE_BYTES => return None,
            None if state.n_busy > state.n_bytes / BYTES_A_BLOCK => return None,
            None => Block { buf: AlignedBuf::try_block(BLOCK_BYTES)?, used: 0, parts: Vec::new() },
        };
        state.n_busy += 1;
        Some(block)
    }

    /// Makes all packed constants readable.
    pub(super) fn finish(self) {
        let state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        for Block { buf, parts, .. } in state.idle {
            let bytes = Bytes::from_owner(buf);
            parts.into_iter().for_each(|(packed, part)| packed.set(bytes.slice(part)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_blocks_once_there_are_many() {
        let blocks = Blocks::default();
        let sizes = [100, 400_000, 600_000, 40_001, 1_500_000, 17 << 20, 50_000];
        let pack = |(byte, n_bytes): (u8, usize)| {
            let packed = blocks.pack(n_bytes, |to| {
                assert!(to.len() == n_bytes && to.iter().all(|&byte| byte == 0));
                to.fill(byte);
            });
            packed.unwrap()
        };
        let packed: Vec<Packed> = (1..).zip(sizes).map(pack).collect();
        let readable: Vec<bool> = packed.iter().map(|packed| !packed.bytes().is_empty()).collect();
        assert_eq!(readable, [true, true, false, false, false, true, false]);
        blocks.finish();
        for ((packed, byte), n_bytes) in packed.iter().zip(1_u8..).zip(sizes) {
            let bytes = packed.bytes();
            assert!(bytes.len() == n_bytes && bytes.iter().all(|&found| found == byte));
            assert_eq!(bytes.as_ptr().align_offset(AlignedBuf::ALIGN), 0);
        }
    }

    #[test]
    fn a_block_has_one_writer() {
        let blocks = Blocks::default();
        let inner = std::cell::Cell::new(None);
        let outer = blocks.pack(ALONE_BYTES, |to| {
            to.fill(1);
            inner.set(blocks.pack(SMALL_BYTES, |to| to.fill(2)));
        });
        blocks.finish();
        let (outer, inner) = (outer.unwrap(), inner.take().unwrap());
        assert!(outer.bytes().iter().all(|&byte| byte == 1));
        assert!(inner.bytes().iter().all(|&byte| byte == 2));
        assert_eq!((outer.bytes().len(), inner.bytes().len()), (ALONE_BYTES, SMALL_BYTES));
    }
}
