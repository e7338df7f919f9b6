//! How much work a file may ask for before it is refused.

/// Bounds on what [`open`](crate::open) follows. Time and memory of opening grow with them, never faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tables within tables, which is also how deep the checks recurse. The default is twice that of ONNX Runtime, which saves deeper files than it loads.
    pub depth: usize,
    /// Graphs within graphs.
    pub subgraphs: usize,
    /// Tables visited; one that several places share counts once a place.
    pub tables: usize,
    /// Bytes visited for each byte of the file, where sharing makes them more than there are.
    pub apparent_ratio: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 128, subgraphs: 32, tables: 1 << 24, apparent_ratio: 16 }
    }
}
