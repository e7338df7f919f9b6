//! Measures the residency of each block of memory, and counts no block twice.

use std::collections::HashSet;

use ort_loader::{PageTable, Residency};
use ort_tensor::Tensor;

use super::{Retained, Usage};

/// The number of named blocks of a kind.
const N_NAMED: usize = 5;

/// A measurement of this process' pages.
#[derive(Debug)]
pub(super) struct Meter {
    /// `None` where the system does not report it.
    table: Option<PageTable>,
    /// The addresses of counted blocks.
    seen: HashSet<usize>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { table: PageTable::open().ok().flatten(), seen: HashSet::new() }
    }

    /// An empty total of a kind.
    pub(super) fn nothing(&self) -> Retained {
        let residency = self.table.as_ref().map(|_| Residency::default());
        Retained { usage: Usage { virtual_bytes: 0, residency }, ..Retained::default() }
    }

    /// The usage of these bytes, whether they were counted before or not.
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

    /// Adds a tensor, unless its elements are deferred. Strings are small objects that were written recently: they count as resident.
    pub(super) fn add_tensor(&mut self, to: &mut Retained, name: &str, tensor: &Tensor) {
        if tensor.is_deferred() {
            return;
        }
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
