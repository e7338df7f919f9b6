//! Limits on the work that a file may require.

/// Limits on what [`open`](crate::open) visits. Time and memory of opening grow linearly with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of tables, which is also the recursion depth of the checks. The default is twice that of ONNX Runtime,
    /// which saves deeper files than it loads.
    pub depth: usize,
    /// Nesting of graphs.
    pub subgraphs: usize,
    /// Tables visited; a shared table counts once for each reference.
    pub tables: usize,
    /// Bytes visited for each byte of the file; shared bytes count once for each reference.
    pub apparent_ratio: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 128, subgraphs: 32, tables: 1 << 24, apparent_ratio: 16 }
    }
}
