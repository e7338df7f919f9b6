//! Who computes, and with what: the instructions, and threads that each have scratch of their own.

use std::sync::Mutex;
use std::thread;

use ort_ep::Threads;
use ort_kernels::Isa;
use ort_tensor::{can_end, go_on};
use smallvec::SmallVec;

/// Elements to a cache line, so that threads never write to the same one.
const LINE: usize = 16;

/// 8 µs, at 60 to 120 multiply-adds a ns, by which all costs are told. A fork and join costs 0.5 µs, and
/// then operands and results have to come from the other core, which reads at 26 GB/s and writes at
/// 10: of work of 6 µs, a network of small images (ppocr_cls) is slower than on one thread.
const WORTH_SHARING: usize = 3 << 18;

/// What kernels are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// How many threads at most have scratch.
    pub(crate) max_threads: usize,
    /// Whether convolutions may be computed in tiles by transformed filters.
    pub(crate) winograd: bool,
    /// Whether what is multiplied with weights of a few bits may be rounded to 8 bits.
    pub(crate) int8_blocks: bool,
}

impl Cpu {
    /// The bytes with which each thread has `len` elements of scratch. Of more than there can be, so many that they are refused.
    pub(crate) const fn scratch_bytes(self, len: usize) -> usize {
        let len = len.saturating_add(LINE - 1) / LINE * LINE;
        let n_bytes = len.saturating_mul(size_of::<f32>()).saturating_mul(self.max_threads);
        // Sums of some such sizes fit as well.
        if n_bytes > usize::MAX >> 6 { usize::MAX >> 6 } else { n_bytes }
    }

    /// The same for work that costs `cost` multiply-adds, which one thread does if it is little.
    pub(crate) const fn scratch_bytes_for(self, len: usize, cost: usize) -> usize {
        let max_threads = if cost < WORTH_SHARING { 1 } else { self.max_threads };
        Self { max_threads, ..self }.scratch_bytes(len)
    }
}

/// The most operations of a part of work that can be cut: a processor does them within some ten milliseconds.
pub(crate) const MOST_OPERATIONS: usize = 1 << 26;

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

    /// Calls `work` once for each part, whoever is free, with scratch that nobody else has then: the
    /// caller always with the first stretch, and others with those behind it, so that of two threads
    /// each finds its own lines there. After the run has ended, no part is begun.
    pub(crate) fn run<P: Send>(
        self,
        mut parts: impl Iterator<Item = P> + Send,
        work: impl Fn(P, &mut [f32]) + Sync,
    ) {
        self.share(&mut parts, &work);
    }

    /// As [`Team::run`], compiled once for all that share parts of one type.
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
        // Parts can be large: they are put where they stay.
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
        // What nobody did: for want of scratch, or because there are more than was said; and what was left
        // out because the run has ended, which stays so.
        let n_parts = queue.lock().map_or(0, |queue| queue.parts.len());
        (0..n_parts).for_each(one);
    }
}

/// What threads take from: each as long as it works on a part.
struct Queue<'a, P> {
    /// Those that are not taken; as many find room here as four threads get.
    parts: SmallVec<[Option<P>; 16]>,
    /// The scratch of each thread, unless it is at work with it.
    slots: SmallVec<[Option<&'a mut [f32]>; 8]>,
}

/// Which scratch a thread takes.
#[derive(Clone, Copy, Debug)]
enum Slot {
    First,
    /// Any but the first.
    Other,
}

impl<'a, P> Queue<'a, P> {
    /// Part `i` and, if it needs one, a slot with its place.
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

/// The most parts of work that costs `cost` multiply-adds, where each part splits or packs an operand
/// anew: one a thread, and two of so much work that this is little of it.
pub(crate) fn most_parts(threads: &dyn Threads, cost: usize) -> usize {
    const LARGE: usize = 1 << 27;
    (threads.count() * if cost < LARGE { 1 } else { 2 }).max(packing_parts_to_end(cost))
}

/// How many parts work needs that can be ended, if each part splits or packs an operand anew; 1 if it cannot be.
pub(crate) fn packing_parts_to_end(cost: usize) -> usize {
    /// 20 to 30 ms.
    const MOST: usize = 1 << 31;
    parts_to_end(cost, MOST)
}

/// How many parts of at most so many multiply-adds work needs that can be ended; 1 if it cannot be.
fn parts_to_end(cost: usize, most: usize) -> usize {
    if can_end() { (cost / most).max(1) } else { 1 }
}

/// Scratch as floats. Nothing may lie anywhere, aligned or not.
pub(crate) fn floats(scratch: &mut [u8]) -> &mut [f32] {
    if scratch.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(scratch) }
}

/// What it costs to read an element that is in no cache of the core's own, such as a weight, in
/// multiply-adds: 40 GB/s.
pub(crate) const READ: usize = 8;

/// How many parts of a small step each thread gets, for threads of unequal speed to finish together.
pub(crate) const PER_THREAD: usize = 4;

/// How many parts to make of work that costs `cost` multiply-adds: enough for threads of unequal
/// speed, and for those that come late, to finish together, but none so small that handing it over
/// costs more than it saves; as many for each thread, where there is one for each. One thread has a part, or
/// as many as let it check now and then whether the run has ended.
pub(crate) fn n_parts(threads: &dyn Threads, cost: usize) -> usize {
    /// 2 to 4 µs: a part costs its thread 0.1 µs.
    const LEAST: usize = 1 << 18;
    /// 140 to 280 µs: what a thread may have to wait for at the end.
    const MOST: usize = 1 << 24;
    match threads.count() {
        // What is written to memory for the first time costs many times what is reckoned.
        0 | 1 => parts_to_end(cost, MOST_OPERATIONS),
        _ if cost < WORTH_SHARING => 1,
        n => match cost / LEAST {
            parts if parts < n => parts,
            parts => (parts - parts % n).min((cost / MOST).next_multiple_of(n).max(n * PER_THREAD)),
        },
    }
}

/// How many of `n` equal things a part gets, for at most `n_parts` parts and as little as can be for
/// the thread that has the most to do: 28 rows are 4 parts of 7 for two threads, not 7 of 4.
pub(crate) fn per_part(threads: &dyn Threads, n: usize, n_parts: usize) -> usize {
    let sizes = (1..=n_parts).rev().map(|n_parts| n.div_ceil(n_parts).max(1));
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
    fn every_part_is_done_once_with_scratch_of_its_own() {
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

    /// Threads that leave all out, as those of a run do that is to end.
    #[derive(Debug)]
    struct Nobody;

    impl Threads for Nobody {
        fn count(&self) -> usize {
            2
        }

        fn for_each(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {}
    }

    #[derive(Debug)]
    struct Ended(bool);

    impl Ending for Ended {
        fn is_ended(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn no_part_is_done_after_the_run_has_ended() {
        let one = StdThreads(1);
        let all: [&dyn Threads; 2] = [&one, &Nobody];
        for (threads, is_ended) in all.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let ending: Arc<dyn Ending> = Arc::new(Ended(is_ended));
            let mut done = [0; 9];
            ended_by(&ending, || {
                let team = Team::new(threads, done.len());
                team.run(done.iter_mut(), |done, _| *done += 1);
            });
            assert_eq!(done, [i32::from(!is_ended); 9], "{threads:?} {is_ended}");
        }
        let ending: Arc<dyn Ending> = Arc::new(Ended(false));
        let parts = || n_parts(&one, 100 * MOST_OPERATIONS);
        assert_eq!((ended_by(&ending, parts), parts()), (100, 1));
    }

    #[test]
    fn the_first_slot_is_the_callers_alone() {
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
    fn small_work_has_scratch_for_one() {
        let cpu = Cpu { isa: Isa::Generic, max_threads: 3, winograd: false, int8_blocks: true };
        assert_eq!(cpu.scratch_bytes_for(17, WORTH_SHARING - 1), 2 * LINE * 4);
        assert_eq!(cpu.scratch_bytes_for(17, WORTH_SHARING), cpu.scratch_bytes(17));
        assert_eq!(cpu.scratch_bytes(17), 3 * 2 * LINE * 4);
        assert_eq!(cpu.scratch_bytes(usize::MAX / 2), usize::MAX >> 6);
    }

    #[test]
    fn small_work_stays_whole() {
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
    fn threads_have_as_much_to_do_as_each_other() {
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
