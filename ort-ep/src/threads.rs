//! Who computes: a kernel says which parts there are, the run says who does them.

use std::fmt::Debug;

/// The threads of a run. Every call returns when all parts are done.
pub trait Threads: Debug + Send + Sync {
    /// How many threads there are, the caller included; at least 1.
    fn count(&self) -> usize;

    /// Calls `part(i)` for each `i < n`, each once, on any thread, in any order.
    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneThread;

impl Threads for OneThread {
    fn count(&self) -> usize {
        1
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(part);
    }
}

impl dyn Threads + '_ {
    /// Splits `data` into chunks of `chunk_len` (the last may be shorter) and calls
    /// `part(i, chunk)` for each, each once, on any thread.
    pub fn for_each_chunk<T: Send>(
        &self,
        data: &mut [T],
        chunk_len: usize,
        part: impl Fn(usize, &mut [T]) + Sync,
    ) {
        if self.count() == 1 || data.len() <= chunk_len {
            data.chunks_mut(chunk_len.max(1)).enumerate().for_each(|(i, chunk)| part(i, chunk));
            return;
        }
        // Each part takes its own chunk out of its own cell: a lock that is never contended.
        let chunks: Vec<_> =
            data.chunks_mut(chunk_len.max(1)).map(|c| std::sync::Mutex::new(Some(c))).collect();
        self.for_each(chunks.len(), &|i| {
            let chunk = chunks[i].lock().ok().and_then(|mut chunk| chunk.take());
            if let Some(chunk) = chunk {
                part(i, chunk);
            }
        });
    }
}
