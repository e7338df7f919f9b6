//! What is resident, split into parts that add up: what the kernel says of mappings, and within
//! anonymous memory what the sessions say.

use ort_session::{Kind, MappingKind, MemoryReport, Retained};

use super::stages::Stage;

/// One part of what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The program and its libraries.
    Program,
    /// The models' files, mapped or read.
    Model,
    /// Files that are neither.
    OtherFiles,
    /// Constants in memory of their own.
    Copied,
    /// Constants as kernels want them, in memory of their own.
    Packed,
    /// Blocks of runs that are over.
    Activations,
    /// What the models run on.
    Inputs,
    /// Small objects, stacks, and what the allocator keeps.
    Rest,
}

/// All parts, from the bottom of the picture to its top, each with its word.
pub(super) const PARTS: [(Part, &str); 8] = [
    (Part::Program, "program"),
    (Part::Model, "model"),
    (Part::OtherFiles, "other files"),
    (Part::Copied, "copied"),
    (Part::Packed, "packed"),
    (Part::Activations, "activations"),
    (Part::Inputs, "inputs"),
    (Part::Rest, "rest"),
];

/// What sessions hold outside of mapped files, resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Model files that were read instead of mapped.
    pub(super) model_read: u64,
    pub(super) copied: u64,
    pub(super) packed: u64,
    pub(super) activations: u64,
}

impl Sizes {
    /// Those of several sessions together.
    pub(super) fn of_reports(reports: &[MemoryReport]) -> Self {
        let mut sizes = Self::default();
        for report in reports {
            if matches!(report.model.kind, Kind::Heap | Kind::Sealed) {
                sizes.model_read += resident(report.model.whole.residency);
            }
            let copied = report.weights_copied.iter().map(|(_, retained)| of_retained(retained));
            sizes.copied += copied.sum::<u64>();
            sizes.packed += of_retained(&report.packed_heap);
            sizes.activations += of_retained(&report.activations_retained);
        }
        sizes
    }
}

fn of_retained(retained: &Retained) -> u64 {
    resident(retained.usage.residency)
}

fn resident(residency: Option<ort_session::Residency>) -> u64 {
    residency.map_or(0, |residency| residency.resident.try_into().unwrap_or(u64::MAX))
}

/// What is resident of each part, in the order of [`PARTS`].
pub(super) fn of(stage: &Stage) -> [u64; PARTS.len()] {
    use MappingKind::{File, Kernel, Library, Program, SharedMemory};

    let sizes = Sizes::of_reports(&stage.reports);
    let program = stage.resident(&[Program, Library, Kernel]);
    let files = stage.resident(&[File, SharedMemory]);
    let model = stage.model_files.resident;
    let other_files = files.saturating_sub(model);
    let anonymous = stage.total().resident.saturating_sub(program + files);
    let told = sizes.model_read + sizes.copied + sizes.packed + sizes.activations;
    let inputs = stage.inputs.min(anonymous.saturating_sub(told));
    let rest = anonymous.saturating_sub(told + inputs);
    let model = model + sizes.model_read;
    let Sizes { copied, packed, activations, .. } = sizes;
    [program, model, other_files, copied, packed, activations, inputs, rest]
}
