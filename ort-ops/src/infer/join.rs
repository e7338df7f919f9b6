//! What is known of a value that is one of two: the result of a branch, or of a loop.

use ort_graph::{Fact, OpError};

/// What both have in common: dimensions that differ are unknown, and so is a rank that differs.
///
/// # Errors
/// If the kinds or the element types differ.
pub fn join_facts(a: &Fact, b: &Fact) -> Result<Fact, OpError> {
    let differ = OpError::Unsupported { what: "a value of one type or another" };
    a.ty.join(&b.ty).map(Fact::from).ok_or(differ)
}
