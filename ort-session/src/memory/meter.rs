//! Looks up what of each piece of memory is resident, and counts no piece twice.

use std::collections::HashSet;

use ort_loader::{PageTable, Residency};
use ort_tensor::Tensor;

use super::{Retained, Usage};

/// How many pieces of a kind are named.
const N_NAMED: usize = 5;

/// A look at this process' pages.
#[derive(Debug)]
pub(super) struct Meter {
    /// None where the system does not tell.
    table: Option<PageTable>,
    /// The addresses of what was counted.
    seen: HashSet<usize>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { table: PageTable::open().ok().flatten(), seen: HashSet::new() }
    }

    /// A kind to add to.
    pub(super) fn nothing(&self) -> Retained {
        let residency = self.table.as_ref().map(|_| Residency::default());
        Retained { usage: Usage { virtual_bytes: 0, residency }, ..Retained::default() }
    }

    /// What of these bytes is in memory, counted before or not.
    pub(super) fn usage(&mut self, bytes: &[u8]) -> Usage {
        let residency = self.table.as_mut().and_then(|table| table.residency(bytes).ok());
        Usage { virtual_bytes: bytes.len(), residency }
    }

    /// Adds bytes that were not counted before.
    pub(super) fn add(&mut self, to: &mut Retained, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() && self.seen.insert(bytes.as_ptr().addr()) {
            let usage = self.usage(bytes);
            to.add(name, usage);
        }
    }

    /// Adds a tensor. Strings are small objects that were just written: they count as resident.
    pub(super) fn add_tensor(&mut self, to: &mut Retained, name: &str, tensor: &Tensor) {
        let view = tensor.view();
        if let Some(bytes) = view.as_bytes() {
            return self.add(to, name, bytes);
        }
        let Ok(strings) = view.as_strings() else { return };
        if !strings.is_empty() && self.seen.insert(strings.as_ptr().addr()) {
            let n_bytes = size_of_val(strings) + tensor.n_bytes();
            let resident = Residency { resident: n_bytes, shared: 0, private: n_bytes };
            let residency = self.table.as_ref().map(|_| resident);
            to.add(name, Usage { virtual_bytes: n_bytes, residency });
        }
    }
}

impl Retained {
    fn add(&mut self, name: &str, usage: Usage) {
        self.count += 1;
        self.usage = self.usage + usage;
        let n_bytes = usage.virtual_bytes;
        let at = self.largest.partition_point(|(_, other)| *other >= n_bytes);
        if !name.is_empty() && at < N_NAMED {
            self.largest.insert(at, (name.to_owned(), n_bytes));
            self.largest.truncate(N_NAMED);
        }
    }
}
