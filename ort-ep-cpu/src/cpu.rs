//! The instruction set that kernels use, and the threads that share a kernel's work, each with its own scratch.

use std::sync::Mutex;
use std::thread;

use bytemuck::Pod;
use ort_ep::Threads;
use ort_kernels::Isa;
use ort_tensor::{can_end, go_on};
use smallvec::SmallVec;

/// Elements per cache line, so that threads never write to the same one.
const LINE: usize = 16;

/// 8 µs, at the 60 to 120 multiply-adds per ns that all costs assume. A fork and join costs 0.5 µs, and then
/// operands and results move between cores, read at 26 GB/s and written at 10: sharing work of 6 µs makes a
/// network of small images (ppocr_cls) slower than on one thread.
const WORTH_SHARING: usize = 3 << 18;

/// The target that kernels are selected for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// The maximum number of threads that have scratch.
    pub(crate) max_threads: usize,
    /// Whether convolutions may use Winograd's algorithm.
    pub(crate) winograd: bool,
    /// Whether activations may be rounded to 8 bits for products with weights of a few bits.
    pub(crate) int8_blocks: bool,
}

impl Cpu {
    /// Channels per block of NCHWc.
    pub(crate) fn block(self) -> usize {
        if self.isa.avx512().is_some() { 16 } else { 8 }
    }

    /// Bytes of scratch for `len` elements per thread; a size that cannot be allocated if `len` is too large.
    pub(crate) const fn scratch_bytes(self, len: usize) -> usize {
        let len = len.saturating_add(LINE - 1) / LINE * LINE;
        let n_bytes = len.saturating_mul(size_of::<f32>()).saturating_mul(self.max_threads);
        // So that sums of several such sizes do not overflow.
        if n_bytes > usize::MAX >> 6 { usize::MAX >> 6 } else { n_bytes }
    }

    /// The same for work of `cost` multiply-adds, which a single thread does if it is small.
    pub(crate) const fn scratch_bytes_for(self, len: usize, cost: usize) -> usize {
        let max_threads = if cost < WORTH_SHARING { 1 } else { self.max_threads };
        Self { max_threads, ..self }.scratch_bytes(len)
    }
}

/// The most operations of a part of divisible work: a processor does them within some ten milliseconds.
pub(crate) const MAX_OPERATIONS: usize = 1 << 26;

/// The threads that share the parts of one kernel's work. The result of a part must not depend on
/// the thread that computes it, nor on the contents of the scratch.
pub(crate) struct Team<'a> {
    threads: &'a dyn Threads,
    n_threads: usize,
    n_parts: usize,
    scratch: &'a mut [f32],
    scratch_len: usize,
}

impl<'a> Team<'a> {
    /// As many threads as are available, but not more than parts.
    pub(crate) fn new(threads: &'a dyn Threads, n_parts: usize) -> Self {
        let n_threads = threads.count().min(n_parts);
        Self { threads, n_threads, n_parts, scratch: &mut [], scratch_len: 0 }
    }

    /// Uses the calling thread alone for work that costs fewer multiply-adds than sharing it.
    pub(crate) fn if_worth(self, cost: usize) -> Self {
        match n_parts(self.threads, cost) {
            1 => Self { n_threads: 1, ..self },
            _ => self,
        }
    }

    /// Gives each thread `len` elements of `scratch`, whose size is [`Cpu::scratch_bytes`].
    pub(crate) fn with_scratch(self, scratch: &'a mut [u8], len: usize) -> Self {
        let scratch = floats(scratch);
        let scratch_len = len.next_multiple_of(LINE);
        let n_threads = match scratch.len().checked_div(scratch_len) {
            Some(n) => self.n_threads.min(n),
            None => self.n_threads,
        };
        Self { n_threads, scratch, scratch_len, ..self }
    }

    /// Calls `work` once for each part on any free thread, with scratch that no other thread uses at that time: the
    /// caller always with the first slot, and others with the slots after it, so that with two threads
    /// each finds its own cache lines there. Once the run is cancelled, no part is started.
    pub(crate) fn run<P: Send>(
        self,
        mut parts: impl Iterator<Item = P> + Send,
        work: impl Fn(P, &mut [f32]) + Sync,
    ) {
        self.share(&mut parts, &work);
    }

    /// [`Team::run`], compiled once per type of part.
    fn share<P: Send>(
        self,
        parts: &mut (dyn Iterator<Item = P> + Send),
        work: &(dyn Fn(P, &mut [f32]) + Sync),
    ) {
        if self.n_threads <= 1 {
            return parts.take_while(|_| go_on().is_ok()).for_each(|part| work(part, self.scratch));
        }
        let slots = match self.scratch_len {
            0 => SmallVec::new(),
            // bounded: by the threads
            len => self.scratch.chunks_exact_mut(len).take(self.n_threads).map(Some).collect(),
        };
        let mut queue = Mutex::new(Queue { parts: SmallVec::new(), slots });
        let (caller, needs_slot) = (thread::current().id(), self.scratch_len > 0);
        // Parts can be large: they are moved into place.
        if let Ok(queue) = queue.get_mut() {
            // bounded: a part is thousands of operations
            queue.parts.extend(parts.map(Some));
        }
        let one = |i| {
            if go_on().is_err() {
                return;
            }
            let is_caller = thread::current().id() == caller;
            let whose = needs_slot.then_some(if is_caller { Slot::First } else { Slot::Other });
            let taken = queue.lock().ok().and_then(|mut queue| queue.take(i, whose));
            let Some((part, (place, slot))) = taken else { return };
            work(part, slot);
            if let (true, Ok(mut queue)) = (needs_slot, queue.lock()) {
                queue.slots[place] = Some(slot);
            }
        };
        self.threads.for_each(self.n_parts, &one);
        // Parts left over: for lack of scratch, because there are more than announced, or because the run is cancelled,
        // in which case they are still skipped.
        let n_parts = queue.lock().map_or(0, |queue| queue.parts.len());
        (0..n_parts).for_each(one);
    }
}

/// The queue that threads take parts from.
struct Queue<'a, P> {
    /// The remaining parts; inline capacity for the parts of four threads.
    parts: SmallVec<[Option<P>; 16]>,
    /// The scratch of each thread, unless it is in use.
    slots: SmallVec<[Option<&'a mut [f32]>; 8]>,
}

/// Which slot a thread takes.
#[derive(Clone, Copy, Debug)]
enum Slot {
    First,
    /// Any slot but the first.
    Other,
}

impl<'a, P> Queue<'a, P> {
    /// Takes part `i` and, if it needs one, a slot with its index.
    fn take(&mut self, i: usize, slot: Option<Slot>) -> Option<(P, (usize, &'a mut [f32]))> {
        let part = self.parts.get_mut(i)?;
        if part.is_none() {
            return None;
        }
        let slot = match slot {
            None => (0, &mut [][..]),
            Some(Slot::First) => (0, self.slots.first_mut()?.take()?),
            Some(Slot::Other) => {
                let mut slots = self.slots.iter_mut().enumerate().skip(1);
                slots.find_map(|(place, slot)| Some((place, slot.take()?)))?
            }
        };
        Some((part.take()?, slot))
    }
}

/// The maximum number of parts of work that costs `cost` multiply-adds, where each part splits or packs an operand
/// again: one per thread, or two if the work is large in comparison.
pub(crate) fn most_parts(threads: &dyn Threads, cost: usize) -> usize {
    const LARGE: usize = 1 << 27;
    (threads.count() * if cost < LARGE { 1 } else { 2 }).max(cancellable_packing_parts(cost))
}

/// How many parts make work cancellable if each part splits or packs an operand again; 1 if the run cannot be cancelled.
pub(crate) fn cancellable_packing_parts(cost: usize) -> usize {
    /// 20 to 30 ms.
    const MAX: usize = 1 << 31;
    cancellable_parts(cost, MAX)
}

/// How many parts of at most `most` multiply-adds make work cancellable; 1 if the run cannot be cancelled.
pub(crate) fn cancellable_parts(cost: usize, most: usize) -> usize {
    if can_end() { (cost / most).max(1) } else { 1 }
}

/// Scratch as floats.
pub(crate) fn floats(scratch: &mut [u8]) -> &mut [f32] {
    numbers(scratch)
}

/// Scratch as numbers. Empty scratch may be unaligned.
pub(crate) fn numbers<T: Pod>(scratch: &mut [u8]) -> &mut [T] {
    if scratch.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(scratch) }
}

/// The cost of reading an element that is not in a private cache of the core, such as a weight, in
/// multiply-adds: 40 GB/s.
pub(crate) const READ: usize = 8;

/// Parts per thread of a small step, so that threads of unequal speed finish together.
pub(crate) const PER_THREAD: usize = 4;

/// The cost of the largest part, 140 to 280 µs: the longest that a thread may wait at the end.
const MAX_PART: usize = 1 << 24;

/// The number of parts for work that costs `cost` multiply-adds: enough for threads of unequal
/// speed, and for late ones, to finish together, but none so small that handing it over
/// costs more than it saves; a multiple of the threads where there is at least one each. A single thread has one part, or
/// enough for it to check for cancellation regularly.
pub(crate) fn n_parts(threads: &dyn Threads, cost: usize) -> usize {
    /// 2 to 4 µs: a part costs its thread 0.1 µs.
    const MIN: usize = 1 << 18;
    match threads.count() {
        // Writes to memory for the first time cost many times the estimate.
        0 | 1 => cancellable_parts(cost, MAX_PART),
        _ if cost < WORTH_SHARING => 1,
        n => match cost / MIN {
            parts if parts < n => parts,
            parts => {
                (parts - parts % n).min((cost / MAX_PART).next_multiple_of(n).max(n * PER_THREAD))
            }
        },
    }
}

/// How many of `n` equal items a part gets, for at most `n_parts` parts and minimal work for
/// the busiest thread: 28 rows are 4 parts of 7 for two threads, not 7 of 4.
pub(crate) fn per_part(threads: &dyn Threads, n: usize, n_parts: usize) -> usize {
    // More parts than this are balanced, whatever their size.
    const MOST_TRIED: usize = 1 << 10;
    let sizes = (1..=n_parts).rev().map(|n_parts| n.div_ceil(n_parts).max(1)).take(MOST_TRIED);
    let most = |size: &usize| n.div_ceil(*size).div_ceil(threads.count()) * size;
    sizes.min_by_key(most).unwrap_or(n.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ort_tensor::{Ending, ended_by};

    use super::*;
    use crate::case::StdThreads;

    #[test]
    fn every_part_is_done_once_with_its_own_scratch() {
        for (n_threads, n_slots) in [(1, 1), (2, 2), (3, 2)] {
            let (threads, mut done) = (StdThreads(n_threads), vec![0_u32; 100]);
            let mut scratch = vec![0_u8; 5_usize.next_multiple_of(LINE) * 4 * n_slots];
            let team = Team::new(&threads, done.len()).with_scratch(&mut scratch, 5);
            team.run(done.iter_mut(), |done, scratch| {
                assert!(scratch.len() >= 5);
                *done += 1;
            });
            assert!(done.iter().all(|&n| n == 1), "{n_threads} threads");
        }
    }

    /// Threads that skip all work, like those of a cancelled run.
    #[derive(Debug)]
    struct Skipping;

    impl Threads for Skipping {
        fn count(&self) -> usize {
            2
        }

        fn for_each(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {}
    }

    #[derive(Debug)]
    struct Cancelled(bool);

    impl Ending for Cancelled {
        fn is_ended(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn no_part_is_done_after_cancellation() {
        let one = StdThreads(1);
        let all: [&dyn Threads; 2] = [&one, &Skipping];
        for (threads, is_cancelled) in all.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let ending: Arc<dyn Ending> = Arc::new(Cancelled(is_cancelled));
            let mut done = [0; 9];
            ended_by(&ending, || {
                let team = Team::new(threads, done.len());
                team.run(done.iter_mut(), |done, _| *done += 1);
            });
            assert_eq!(done, [i32::from(!is_cancelled); 9], "{threads:?} {is_cancelled}");
        }
        let ending: Arc<dyn Ending> = Arc::new(Cancelled(false));
        let parts = || n_parts(&one, 100 * MAX_PART);
        assert_eq!((ended_by(&ending, parts), parts()), (100, 1));
    }

    #[test]
    fn the_first_slot_belongs_to_the_caller() {
        for n_threads in 2..=4 {
            let (threads, mut done) = (StdThreads(n_threads), vec![None; 200]);
            let mut scratch = vec![0_u8; LINE * 4 * n_threads];
            let first = scratch.as_ptr().addr();
            let team = Team::new(&threads, done.len()).with_scratch(&mut scratch, LINE);
            team.run(done.iter_mut(), |done, slot| {
                *done = Some((thread::current().id(), slot.as_ptr().addr() == first));
                thread::yield_now();
            });
            let caller = thread::current().id();
            for (who, is_first) in done.into_iter().flatten() {
                assert_eq!(who == caller, is_first, "{n_threads} threads");
            }
        }
    }

    #[test]
    fn small_work_has_scratch_for_one_thread() {
        let cpu = Cpu { isa: Isa::Generic, max_threads: 3, winograd: false, int8_blocks: true };
        assert_eq!(cpu.scratch_bytes_for(17, WORTH_SHARING - 1), 2 * LINE * 4);
        assert_eq!(cpu.scratch_bytes_for(17, WORTH_SHARING), cpu.scratch_bytes(17));
        assert_eq!(cpu.scratch_bytes(17), 3 * 2 * LINE * 4);
        assert_eq!(cpu.scratch_bytes(usize::MAX / 2), usize::MAX >> 6);
    }

    #[test]
    fn small_work_is_not_split() {
        assert_eq!(n_parts(&StdThreads(3), 1000), 1);
        assert_eq!(n_parts(&StdThreads(3), (3 << 18) - 1), 1);
        assert_eq!(n_parts(&StdThreads(3), 3 << 18), 3);
        assert_eq!(n_parts(&StdThreads(3), 8 << 18), 6);
        assert_eq!(n_parts(&StdThreads(8), 5 << 18), 5);
        assert_eq!(n_parts(&StdThreads(3), 12 << 24), 12);
        assert_eq!(n_parts(&StdThreads(3), 100 << 24), 102);
        assert_eq!(n_parts(&StdThreads(1), usize::MAX), 1);
    }

    #[test]
    fn threads_have_equal_work() {
        let most = |n_threads, n, n_parts| {
            let size = per_part(&StdThreads(n_threads), n, n_parts);
            assert!(n.div_ceil(size) <= n_parts, "{n} in {n_parts} parts");
            n.div_ceil(size).div_ceil(n_threads) * size
        };
        for (n_threads, n, least) in
            [(1, 7, 7), (2, 28, 14), (2, 50, 25), (2, 7, 4), (3, 50, 17), (8, 3, 1)]
        {
            assert_eq!(most(n_threads, n, 4 * n_threads), least, "{n} for {n_threads}");
        }
        assert_eq!(per_part(&StdThreads(2), 0, 1), 1);
        assert_eq!(per_part(&StdThreads(2), 5, 1), 5);
    }
}
