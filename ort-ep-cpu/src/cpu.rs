//! Who computes, and with what: the instructions, and threads that each have scratch of their own.

use std::sync::Mutex;

use ort_ep::Threads;
use ort_kernels::Isa;

/// Elements to a cache line, so that threads never write to the same one.
const LINE: usize = 16;

/// What kernels are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// How many threads at most have scratch.
    pub(crate) max_threads: usize,
    /// Whether convolutions may be computed in tiles by transformed filters.
    pub(crate) winograd: bool,
}

impl Cpu {
    /// The bytes with which each thread has `len` elements of scratch.
    pub(crate) const fn scratch_bytes(self, len: usize) -> usize {
        len.next_multiple_of(LINE) * size_of::<f32>() * self.max_threads
    }
}

/// The threads that share the parts of one kernel's work. What a part computes must not depend on
/// who computes it, nor on what the scratch holds.
pub(crate) struct Team<'a> {
    threads: &'a dyn Threads,
    n_threads: usize,
    scratch: &'a mut [f32],
    scratch_len: usize,
}

impl<'a> Team<'a> {
    /// As many threads as there are, but not more than parts.
    pub(crate) fn new(threads: &'a dyn Threads, n_parts: usize) -> Self {
        let n_threads = threads.count().min(n_parts);
        Self { threads, n_threads, scratch: &mut [], scratch_len: 0 }
    }

    /// Gives each thread `len` elements of `scratch`, which is of [`Cpu::scratch_bytes`].
    pub(crate) fn with_scratch(self, scratch: &'a mut [u8], len: usize) -> Self {
        let scratch = floats(scratch);
        let scratch_len = len.next_multiple_of(LINE);
        let n_threads = match scratch.len().checked_div(scratch_len) {
            Some(n) => self.n_threads.min(n),
            None => self.n_threads,
        };
        Self { n_threads, scratch, scratch_len, ..self }
    }

    /// Calls `work` once for each part, whoever is free, with the thread's scratch.
    pub(crate) fn run<P: Send>(
        self,
        mut parts: impl Iterator<Item = P> + Send,
        work: impl Fn(P, &mut [f32]) + Sync,
    ) {
        if self.n_threads <= 1 {
            return parts.for_each(|part| work(part, self.scratch));
        }
        let desks = Mutex::new(self.scratch.chunks_exact_mut(self.scratch_len.max(1)));
        let parts = Mutex::new(parts.by_ref().fuse());
        self.threads.for_each(self.n_threads, &|_| {
            let scratch = if self.scratch_len > 0 { next(&desks) } else { Some(&mut [][..]) };
            let Some(scratch) = scratch else { return };
            while let Some(part) = next(&parts) {
                work(part, scratch);
            }
        });
    }
}

/// Scratch as floats. Nothing may lie anywhere, aligned or not.
pub(crate) fn floats(scratch: &mut [u8]) -> &mut [f32] {
    if scratch.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(scratch) }
}

/// The next item; nobody else waits while it is worked on.
fn next<I: Iterator>(items: &Mutex<I>) -> Option<I::Item> {
    items.lock().ok()?.next()
}

/// How many parts to make of work that costs `cost` multiply-adds: enough for threads of unequal
/// speed to finish together, but none so small that handing it over costs more than it saves.
pub(crate) fn n_parts(threads: &dyn Threads, cost: usize) -> usize {
    /// About 10 µs of a product, more of anything else: what waking a thread takes.
    const LEAST: usize = 1 << 19;
    const PER_THREAD: usize = 4;
    match threads.count() {
        0 | 1 => 1,
        n => (cost / LEAST).clamp(1, n * PER_THREAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::StdThreads;

    #[test]
    fn every_part_is_done_once_with_scratch_of_its_own() {
        for (n_threads, n_desks) in [(1, 1), (2, 2), (3, 2)] {
            let (threads, mut done) = (StdThreads(n_threads), vec![0_u32; 100]);
            let mut scratch = vec![0_u8; 5_usize.next_multiple_of(LINE) * 4 * n_desks];
            let team = Team::new(&threads, done.len()).with_scratch(&mut scratch, 5);
            team.run(done.iter_mut(), |done, scratch| {
                assert!(scratch.len() >= 5);
                *done += 1;
            });
            assert!(done.iter().all(|&n| n == 1), "{n_threads} threads");
        }
    }

    #[test]
    fn small_work_stays_whole() {
        assert_eq!(n_parts(&StdThreads(3), 1000), 1);
        assert_eq!(n_parts(&StdThreads(3), usize::MAX), 12);
        assert_eq!(n_parts(&StdThreads(1), usize::MAX), 1);
    }
}
