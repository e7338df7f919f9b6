//! A block size that is only likely.

use std::fmt;

/// The block size that was assumed for the com.microsoft.nchwc nodes of a file that states none, where both 8 and 16
/// are consistent with every node and the filters leave doubt. If it is wrong, so are all results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedBlockSize {
    /// How many channels a block has.
    pub block_size: usize,
    /// The nodes that would compute something else with the other size.
    pub nodes: Vec<String>,
    /// How many votes the filters gave.
    pub n_votes: usize,
    /// How many of them are for 16.
    pub n_for_16: usize,
}

impl fmt::Display for AssumedBlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block_size, nodes, n_votes, n_for_16 } = self;
        write!(
            f,
            "the block size of the com.microsoft.nchwc nodes is assumed to be {block_size}: the file \
             does not state it, and nothing in it decides between 8 and 16 ({}; {n_for_16} of \
             {n_votes} votes of their filters are for 16); if results are wrong, state it as \
             `session.nchwc_block_size`",
            some(nodes)
        )
    }
}

/// The first few names, and how many more there are.
fn some(nodes: &[String]) -> String {
    const N_NAMED: usize = 3;
    let named: Vec<String> = nodes.iter().take(N_NAMED).map(|node| format!("`{node}`")).collect();
    let more = nodes.len().saturating_sub(N_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}
