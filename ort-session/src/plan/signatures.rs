//! The signatures of input shapes that a plan was run with, and the layout of each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::shapes::{Args, Signature};
use super::{Layout, Plan, PlanError, Selection};

/// The number of signatures that a plan caches. A layout has no block, only some hundred bytes
/// for each step and the prepared state of kernels, so there may be as many as the batch sizes of a server.
const MAX_LAYOUTS: usize = 32;

/// Layouts by signature. The least recently used one is replaced by a new one.
#[derive(Debug)]
pub(super) struct Layouts {
    entries: RwLock<Vec<Entry>>,
    /// The time of the last use, counted in changes of the signature.
    clock: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    layout: Arc<Layout>,
    last_use: AtomicU64,
}

impl Layouts {
    pub(super) const fn new() -> Self {
        Self { entries: RwLock::new(Vec::new()), clock: AtomicU64::new(0) }
    }

    /// The layout for `args`, if it is cached. Readers never wait for each other, and repeated
    /// use of one signature writes no shared memory.
    fn find(&self, args: &Args<'_>) -> Option<Arc<Layout>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        Some(self.used(entries.iter().find(|entry| entry.layout.serves(args))?))
    }

    /// The layout of exactly this signature, if it is cached.
    fn find_like(&self, signature: &Signature) -> Option<Arc<Layout>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        Some(self.used(entries.iter().find(|entry| entry.layout.signature == *signature)?))
    }

    /// The most recently used layout.
    fn latest(&self) -> Option<Arc<Layout>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let latest = entries.iter().max_by_key(|entry| entry.last_use.load(Ordering::Relaxed))?;
        Some(latest.layout.clone())
    }

    fn used(&self, entry: &Entry) -> Arc<Layout> {
        if entry.last_use.load(Ordering::Relaxed) != self.clock.load(Ordering::Relaxed) {
            entry.last_use.store(self.tick(), Ordering::Relaxed);
        }
        entry.layout.clone()
    }

    fn insert(&self, layout: Arc<Layout>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.iter().any(|entry| entry.layout.signature == layout.signature) {
            return; // Another run was faster.
        }
        if entries.len() >= MAX_LAYOUTS {
            let last_use = |i: &usize| entries[*i].last_use.load(Ordering::Relaxed);
            if let Some(oldest) = (0..entries.len()).min_by_key(last_use) {
                entries.swap_remove(oldest);
            }
        }
        let last_use = AtomicU64::new(self.tick());
        entries.push(Entry { layout, last_use });
    }

    /// Replaces the layout of the same signature, if it is still cached.
    fn replace(&self, layout: &Arc<Layout>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &&mut Entry| entry.layout.signature == layout.signature;
        if let Some(entry) = entries.iter_mut().find(is_it) {
            entry.layout = layout.clone();
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Plan {
    /// The layout for these inputs and outputs: a cached one, or a new one, adapted from the latest if
    /// only sizes differ.
    pub(crate) fn layout(
        &self,
        selection: &Selection,
        args: &Args<'_>,
    ) -> Result<Arc<Layout>, PlanError> {
        let layouts = &selection.layouts;
        if let Some(layout) = layouts.find(args) {
            return Ok(layout);
        }
        let signature = Signature::new(args);
        let near = layouts.latest();
        let adapted =
            near.as_ref().and_then(|near| near.adapted(self, selection, (args, &signature)));
        match adapted {
            Some(layout) => {
                let layout = Arc::new(layout);
                layouts.insert(layout.clone());
                Ok(layout)
            }
            None => self.new_layout(selection, (args, signature), near.as_deref()),
        }
    }

    /// The smallest layout for the same inputs, cached in place of `layout`.
    pub(crate) fn tight_layout(
        &self,
        selection: &Selection,
        args: &Args<'_>,
        layout: &Layout,
    ) -> Result<Arc<Layout>, PlanError> {
        let inputs = (args, layout.signature.clone());
        let layout = Arc::new(Layout::new(self, selection, inputs, None)?);
        selection.layouts.replace(&layout);
        Ok(layout)
    }

    /// A layout for these inputs and for all that differ from those of `before` in the same dimensions.
    pub(crate) fn looser_layout(
        &self,
        selection: &Selection,
        args: &Args<'_>,
        before: &Layout,
    ) -> Result<Arc<Layout>, PlanError> {
        let signature = before.signature.or(args);
        match selection.layouts.find_like(&signature) {
            Some(layout) => Ok(layout),
            None => self.new_layout(selection, (args, signature), None),
        }
    }

    fn new_layout(
        &self,
        selection: &Selection,
        inputs: (&Args<'_>, Signature),
        near: Option<&Layout>,
    ) -> Result<Arc<Layout>, PlanError> {
        let layout = Arc::new(Layout::new(self, selection, inputs, near)?);
        selection.layouts.insert(layout.clone());
        Ok(layout)
    }

    /// Calls `visit` with every cached layout, without those of sub-plans.
    pub(crate) fn visit_layouts(&self, visit: &mut dyn FnMut(&Layout)) {
        self.visit_selections(&mut |selection| {
            let entries = selection.layouts.entries.read().unwrap_or_else(PoisonError::into_inner);
            entries.iter().for_each(|entry| visit(&entry.layout));
        });
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, ValueView};

    use super::*;

    fn layout(args: &Args<'_>) -> Arc<Layout> {
        let mut layout = Layout::default();
        layout.signature = Signature::new(args);
        Arc::new(layout)
    }

    /// Calls `with` with the arguments of a run on a vector of `n` zeros.
    fn with_args<R>(n: usize, with: impl FnOnce(&Args<'_>) -> R) -> R {
        let x = Tensor::from_slice(&[n], &vec![0.0_f32; n]).unwrap();
        with(&Args { inputs: &[ValueView::Tensor(x.view())], captures: &[] })
    }

    fn insert(layouts: &Layouts, n: usize) {
        with_args(n, |args| layouts.insert(layout(args)));
    }

    fn has(layouts: &Layouts, n: usize) -> bool {
        let entries = layouts.entries.read().unwrap();
        with_args(n, |args| entries.iter().any(|entry| entry.layout.serves(args)))
    }

    #[test]
    fn the_least_recently_used_signature_is_replaced() {
        let layouts = Layouts::new();
        (0..MAX_LAYOUTS).for_each(|n| insert(&layouts, n));
        // The oldest is used again, so the second is replaced.
        assert!(with_args(0, |args| layouts.find(args)).is_some());
        insert(&layouts, MAX_LAYOUTS);
        assert!(has(&layouts, 0) && !has(&layouts, 1) && has(&layouts, MAX_LAYOUTS));
        assert_eq!(layouts.entries.read().unwrap().len(), MAX_LAYOUTS);
    }

    #[test]
    fn a_signature_is_cached_once() {
        let layouts = Layouts::new();
        (0..3).for_each(|_| insert(&layouts, 7));
        assert_eq!(layouts.entries.read().unwrap().len(), 1);
    }

    #[test]
    fn the_clock_does_not_advance_while_one_signature_repeats() {
        let layouts = Layouts::new();
        (0..2).for_each(|n| insert(&layouts, n));
        let find = |n| with_args(n, |args| layouts.find(args)).is_some();
        assert!(find(0));
        let now = layouts.clock.load(Ordering::Relaxed);
        assert!((0..100).all(|_| find(0)));
        assert_eq!(layouts.clock.load(Ordering::Relaxed), now);
    }
}
