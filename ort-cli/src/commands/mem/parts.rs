//! Resident memory, split into parts that add up: mappings as the kernel reports them, and within
//! anonymous memory what the sessions report.

use ort_session::{Kind, MappingKind, MemoryReport, Retained};

use super::stages::Stage;

/// One part of resident memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The program and its libraries.
    Program,
    /// The models' files, mapped or read.
    Model,
    /// Files that are neither.
    OtherFiles,
    /// Constants copied to private memory.
    Copied,
    /// Constants packed for kernels, in private memory.
    Packed,
    /// Retained arenas.
    Activations,
    /// The inputs of the models.
    Inputs,
    /// Small objects, stacks, and memory that the allocator retains.
    Rest,
}

/// All parts, from the bottom of the picture to its top, each with its name.
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

/// Resident memory of sessions outside of mapped files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Model files that were read instead of mapped.
    pub(super) model_read: u64,
    pub(super) copied: u64,
    pub(super) packed: u64,
    pub(super) activations: u64,
}

impl Sizes {
    /// The sum over several sessions.
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

/// The resident bytes of each part, in the order of [`PARTS`].
pub(super) fn of(stage: &Stage) -> [u64; PARTS.len()] {
    use MappingKind::{File, Kernel, Library, Program, SharedMemory};

    let sizes = Sizes::of_reports(&stage.reports);
    let program = stage.resident(&[Program, Library, Kernel]);
    let files = stage.resident(&[File, SharedMemory]);
    let model = stage.model_files.resident;
    let other_files = files.saturating_sub(model);
    let anonymous = stage.total().resident.saturating_sub(program + files);
    let reported = sizes.model_read + sizes.copied + sizes.packed + sizes.activations;
    let inputs = stage.inputs.min(anonymous.saturating_sub(reported));
    let rest = anonymous.saturating_sub(reported + inputs);
    let model = model + sizes.model_read;
    let Sizes { copied, packed, activations, .. } = sizes;
    [program, model, other_files, copied, packed, activations, inputs, rest]
}
