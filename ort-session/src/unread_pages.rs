//! Pages of a mapped model that no run reads.

// collects are bounded: constants of the graph, and their packed forms

use std::ops::Range;

use ort_loader::ModelBytes;

use crate::log::{Log, Severity};
use crate::packs::PackedConstant;
use crate::plan::Plan;

/// Releases the pages of a mapped file that no run reads.
pub(crate) fn release_pages(
    bytes: &ModelBytes,
    (plan, packs): (&Plan, &[PackedConstant]),
    log: &Log,
) {
    let mut read: Vec<Range<usize>> = Vec::new();
    plan.visit(&mut |plan| {
        let constants = plan.graph.value_ids().filter_map(|id| plan.graph.constant(id));
        let slices = constants.filter_map(|constant| constant.shared_bytes());
        read.extend(slices.filter_map(|slice| bytes.range_of(slice)));
    });
    let of_file = packs.iter().filter_map(|pack| bytes.range_of(pack.packed.bytes()));
    read.extend(of_file);
    read.push(bytes.len()..bytes.len());
    read.sort_unstable_by_key(|range| range.start);
    let mut first = 0;
    for next in read {
        // Pages that cannot be released only cost memory.
        if next.start > first
            && let Err(error) = bytes.advise_dont_need(first..next.start)
        {
            log.event(
                Severity::Verbose,
                format_args!("pages of the model cannot be released: {error}"),
            );
        }
        first = first.max(next.end);
    }
}
