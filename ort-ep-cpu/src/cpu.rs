//! Who computes, and with what: the instructions, and threads that each have scratch of their own.

use std::sync::Mutex;

use ort_ep::Threads;
use ort_kernels::Isa;
use smallvec::SmallVec;

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
    n_parts: usize,
    scratch: &'a mut [f32],
    scratch_len: usize,
}

impl<'a> Team<'a> {
    /// As many threads as there are, but not more than parts.
    pub(crate) fn new(threads: &'a dyn Threads, n_parts: usize) -> Self {
        let n_threads = threads.count().min(n_parts);
        Self { threads, n_threads, n_parts, scratch: &mut [], scratch_len: 0 }
    }

    /// Leaves the caller alone with work that costs fewer multiply-adds than it takes to share it.
    pub(crate) fn if_worth(self, cost: usize) -> Self {
        match n_parts(self.threads, cost) {
            1 => Self { n_threads: 1, ..self },
            _ => self,
        }
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

    /// Calls `work` once for each part, whoever is free, with scratch that nobody else has then.
    pub(crate) fn run<P: Send>(
        self,
        parts: impl Iterator<Item = P> + Send,
        work: impl Fn(P, &mut [f32]) + Sync,
    ) {
        if self.n_threads <= 1 {
            return parts.for_each(|part| work(part, self.scratch));
        }
        let desks = match self.scratch_len {
            0 => SmallVec::new(),
            len => self.scratch.chunks_exact_mut(len).take(self.n_threads).collect(),
        };
        let needs_desk = self.scratch_len > 0;
        let mut office = Mutex::new(Office { parts: SmallVec::new(), desks, needs_desk });
        // Parts can be large: they are put where they stay.
        if let Ok(office) = office.get_mut() {
            office.parts.extend(parts.map(Some));
        }
        let one = |i| {
            let taken = office.lock().ok().and_then(|mut office| office.take(i));
            let Some((part, desk)) = taken else { return };
            work(part, desk);
            if let (true, Ok(mut office)) = (needs_desk, office.lock()) {
                office.desks.push(desk);
            }
        };
        self.threads.for_each(self.n_parts, &one);
        // What nobody did: for want of scratch, or because there are more than was said.
        let n_parts = office.lock().map_or(0, |office| office.parts.len());
        (0..n_parts).for_each(one);
    }
}

/// What threads take from: each as long as it works on a part.
struct Office<'a, P> {
    /// Those that are not taken; as many find room here as four threads get.
    parts: SmallVec<[Option<P>; 16]>,
    /// The scratch of threads that do nothing just now.
    desks: SmallVec<[&'a mut [f32]; 8]>,
    needs_desk: bool,
}

impl<'a, P> Office<'a, P> {
    fn take(&mut self, i: usize) -> Option<(P, &'a mut [f32])> {
        let part = self.parts.get_mut(i)?;
        if part.is_none() {
            return None;
        }
        let desk = if self.needs_desk { self.desks.pop()? } else { &mut [] };
        Some((part.take()?, desk))
    }
}

/// Scratch as floats. Nothing may lie anywhere, aligned or not.
pub(crate) fn floats(scratch: &mut [u8]) -> &mut [f32] {
    if scratch.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(scratch) }
}

/// How many parts to make of work that costs `cost` multiply-adds: enough for threads of unequal
/// speed to finish together, but none so small that handing it over costs more than it saves; as
/// many for each thread, where there is one for each.
pub(crate) fn n_parts(threads: &dyn Threads, cost: usize) -> usize {
    /// 9 to 17 µs of a product, at 60 to 120 multiply-adds a ns, and more of anything else. A fork
    /// and join costs 1.5 µs, and then operands and results have to come from the other core: of
    /// work half as large, a network of small images (ppocr_cls) is slower than on one thread.
    const WORTH_SHARING: usize = 1 << 20;
    /// 2 to 4 µs: a part costs its thread 0.1 µs.
    const LEAST: usize = 1 << 18;
    const PER_THREAD: usize = 4;
    match threads.count() {
        0 | 1 => 1,
        _ if cost < WORTH_SHARING => 1,
        n => match cost / LEAST {
            parts if parts < n => parts,
            parts => (parts - parts % n).min(n * PER_THREAD),
        },
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
        assert_eq!(n_parts(&StdThreads(3), 3 << 18), 1);
        assert_eq!(n_parts(&StdThreads(3), 8 << 18), 6);
        assert_eq!(n_parts(&StdThreads(8), 5 << 18), 5);
        assert_eq!(n_parts(&StdThreads(3), usize::MAX), 12);
        assert_eq!(n_parts(&StdThreads(1), usize::MAX), 1);
    }
}
