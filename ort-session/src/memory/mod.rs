//! The memory of a session by purpose.

// collects are bounded: as long as the graph's lists

mod json;
mod meter;
mod objects;
mod origins;

use std::ops::{Add, Sub};

use ort_graph::Graph;
use ort_loader::{Kind, ModelBytes, Residency};
use ort_tensor::{DType, Tensor};

use self::meter::Meter;
pub(crate) use self::origins::Origins;
use crate::session::Session;

/// A session's memory by kind. Memory that several constants share is counted once.
///
/// It includes all constants, and all blocks retained for runs; not the memory of runs in
/// progress. The memory of kernels besides packed constants is part of
/// [`objects`](Self::objects).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The model's bytes as a whole, including external data.
    pub model: ModelUsage,
    /// Constants that are slices of the model's bytes. If those are mapped, they are shared with every
    /// process that maps the file.
    pub weights_mapped: Retained,
    /// Constants in their own memory, by reason; each reason once.
    pub weights_copied: Vec<(CopyReason, Retained)>,
    /// The number of constants whose elements were released: all kernels that read them have packed copies.
    pub weights_released: usize,
    /// Packed constants that are slices of the model's bytes: the file is a packed file.
    pub packed_mapped: Retained,
    /// Packed constants in the session's own memory.
    pub packed_heap: Retained,
    /// The memory for a run of each signature of input shapes seen so far.
    pub activations_planned: Planned,
    /// The blocks of finished runs and the memory of dropped outputs, retained for future
    /// runs.
    pub activations_retained: Retained,
    /// The graph, the plan and the kernels: many small objects. A lower bound: the sum of their
    /// sizes, names and lists, without the overhead of the allocator.
    pub objects: Objects,
}

/// The owner of the model's bytes, and their usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelUsage {
    /// The owner of the bytes of the model's own file.
    pub kind: Kind,
    /// All bytes.
    pub whole: Usage,
    /// The elements of the file's initializers, whether the session still reads them or not.
    pub weights: Usage,
    /// The packed constants in the file.
    pub packed: Usage,
    /// Everything else: tables, names, attributes.
    pub structure: Usage,
}

/// Why a constant is not a slice of the model's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CopyReason {
    /// It is not aligned for its type in the file.
    NotAligned,
    /// It was computed during loading: folded by the optimizer, or sparse in the file.
    Computed,
    /// It has strings.
    Strings,
}

impl CopyReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NotAligned, Self::Computed, Self::Strings];
}

/// Memory of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retained {
    /// The number of blocks.
    pub count: usize,
    /// Their total.
    pub usage: Usage,
    /// The largest few, in descending order: the names of constants, or of their packing.
    pub largest: Vec<(String, usize)>,
}

/// The size of memory, and how much of it is resident, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it, resident or not.
    pub virtual_bytes: usize,
    /// The resident part; `None` where the system does not report it.
    pub residency: Option<Residency>,
}

/// The memory that runs need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// The number of planned signatures of input shapes, including those of subgraphs.
    pub signatures: usize,
    /// The total of their blocks.
    pub n_bytes: usize,
    /// The largest block.
    pub largest: usize,
}

/// Estimates, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Objects {
    /// Values and nodes, with their names, attributes and operators.
    pub graph: usize,
    /// Steps, kernels, and the layouts of all signatures.
    pub plan: usize,
}

impl MemoryReport {
    pub(crate) fn of(session: &Session) -> Self {
        let mut meter = Meter::new();
        let files: Vec<_> = std::iter::once(&session.bytes).chain(&session.external).collect();
        let mut weights_mapped = meter.nothing();
        let mut copied = CopyReason::ALL.map(|reason| (reason, meter.nothing()));
        let (mut released, mut planned) = (0, Planned::default());
        let mut retained = meter.nothing();
        let mut objects = Objects::default();
        session.plan.visit(&mut |plan| {
            for (name, tensor) in constants(&plan.graph) {
                released += usize::from(tensor.is_released());
                let to = match copy_reason(name, tensor, &session.origins) {
                    None => &mut weights_mapped,
                    Some(reason) => &mut copied[reason as usize].1,
                };
                meter.add_tensor(to, name, tensor);
            }
            plan.visit_layouts(&mut |layout| planned.add(layout.arena_bytes));
            session.run_memory.visit_held(plan, &mut |block| meter.add(&mut retained, "", block));
            objects.add(plan);
        });
        session.run_memory.visit_spares(&mut |buf| meter.add(&mut retained, "", buf));
        let mut packed = [meter.nothing(), meter.nothing()];
        for pack in &session.packs {
            let to = &mut packed[usize::from(!pack.is_of_file)];
            meter.add(to, &pack.label, pack.packed.bytes());
        }
        let [packed_mapped, packed_heap] = packed;
        Self {
            model: ModelUsage::of(&files, &session.origins, &mut meter),
            weights_mapped,
            weights_copied: copied.into(),
            weights_released: released,
            packed_mapped,
            packed_heap,
            activations_planned: planned,
            activations_retained: retained,
            objects,
        }
    }

    /// The size of constants in their own memory, in bytes.
    pub fn copied_bytes(&self) -> usize {
        self.weights_copied.iter().map(|(_, retained)| retained.n_bytes()).sum()
    }
}

impl Retained {
    /// The total size, resident or not.
    pub const fn n_bytes(&self) -> usize {
        self.usage.virtual_bytes
    }
}

fn constants(graph: &Graph) -> impl Iterator<Item = (&str, &Tensor)> {
    let named = |id| Some((graph.value(id).name.as_str(), graph.constant(id)?));
    graph.value_ids().filter_map(named)
}

/// Why a constant is not a slice of the model's bytes; `None` if it is.
fn copy_reason(name: &str, tensor: &Tensor, origins: &Origins) -> Option<CopyReason> {
    match tensor.dtype() {
        _ if tensor.is_shared() => None,
        DType::String => Some(CopyReason::Strings),
        _ if origins.is_not_aligned(name) => Some(CopyReason::NotAligned),
        _ => Some(CopyReason::Computed),
    }
}

impl ModelUsage {
    fn of(files: &[&ModelBytes], origins: &Origins, meter: &mut Meter) -> Self {
        let nothing = meter.nothing().usage;
        let whole = files.iter().fold(nothing, |sum, file| sum + meter.usage(file.as_slice()));
        let [weights, packed] = [&origins.weights, &origins.packed].map(|places| {
            let parts = places.iter().map(|(file, range)| &files[*file].as_slice()[range.clone()]);
            parts.fold(nothing, |sum, part| sum + meter.usage(part))
        });
        let structure = whole - weights - packed;
        Self { kind: files[0].kind(), whole, weights, packed, structure }
    }
}

impl Planned {
    fn add(&mut self, arena_bytes: usize) {
        self.signatures += 1;
        self.n_bytes += arena_bytes;
        self.largest = self.largest.max(arena_bytes);
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            virtual_bytes: self.virtual_bytes + other.virtual_bytes,
            residency: self.residency.zip(other.residency).map(|(a, b)| a + b),
        }
    }
}

/// The rest without a part. Pages may come and go between two measurements: saturates at zero.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, part: Self) -> Self {
        let less = |(whole, part): (Residency, Residency)| Residency {
            resident: whole.resident.saturating_sub(part.resident),
            shared: whole.shared.saturating_sub(part.shared),
            private: whole.private.saturating_sub(part.private),
        };
        Self {
            virtual_bytes: self.virtual_bytes.saturating_sub(part.virtual_bytes),
            residency: self.residency.zip(part.residency).map(less),
        }
    }
}
