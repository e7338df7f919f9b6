//! What a session's memory is for.

// collects are bounded: as long as the graph's lists

mod meter;
mod objects;
mod origins;

use std::ops::{Add, Sub};

use ort_graph::Graph;
use ort_loader::{Kind, ModelBytes, Residency};
use ort_tensor::Tensor;

use self::meter::Meter;
pub(crate) use self::origins::Origins;
use crate::session::Session;

/// A session's memory by kind. Memory that several constants share is counted once.
///
/// Every kind of constant is here, and every block that runs compute in; what a run is using at
/// this moment is not. What the kernels hold beyond packed constants is part of
/// [`objects`](Self::objects).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The model's bytes as a whole, those of its other files among them.
    pub model: ModelUsage,
    /// Constants that are slices of the model's bytes: if those are mapped, shared with every
    /// process that maps the file.
    pub weights_mapped: Retained,
    /// Constants in memory of their own, by reason; each reason once.
    pub weights_copied: Vec<(CopyReason, Retained)>,
    /// How many constants have no elements any more: all kernels that read them have them packed.
    pub weights_released: usize,
    /// Constants as kernels want them, as slices of the model's bytes: the file has them in that form.
    pub packed_mapped: Retained,
    /// Constants as kernels want them, in memory of this session.
    pub packed_heap: Retained,
    /// What each signature of input shapes seen so far needs for a run.
    pub activations_planned: Planned,
    /// The blocks of runs that are over and the memory of outputs that were dropped, kept for runs to
    /// come.
    pub activations_retained: Retained,
    /// The graph, the plan and the kernels: many small objects. An estimate from below: their own
    /// sizes, names and lists are added up, and what the allocator adds is not.
    pub objects: Objects,
}

/// How the model's bytes are held, and what of them is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelUsage {
    /// What owns those of the model's own file.
    pub kind: Kind,
    /// All of them.
    pub whole: Usage,
    /// The elements of the file's initializers, whether the session still reads them or not.
    pub weights: Usage,
    /// The packed forms of constants that the file holds.
    pub packed: Usage,
    /// Everything else: tables, names, attributes.
    pub structure: Usage,
}

/// Why a constant is no slice of the model's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CopyReason {
    /// It lies in the file where no element of its type may lie.
    NotAligned,
    /// It was made when the model was loaded: folded by the optimizer, or sparse in the file.
    Computed,
    /// It consists of strings.
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
    /// How many pieces.
    pub count: usize,
    /// All of them together.
    pub usage: Usage,
    /// The largest few, the largest first: the names of constants, or how they are packed.
    pub largest: Vec<(String, usize)>,
}

/// How many addresses something takes, and what of them is in memory. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it, in memory or not.
    pub virtual_bytes: usize,
    /// What of it is in memory; `None` where the system does not tell.
    pub residency: Option<Residency>,
}

/// What runs need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// How many signatures of input shapes are planned, those of subgraphs among them.
    pub signatures: usize,
    /// Their blocks together.
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

    /// Constants in memory of their own, in bytes.
    pub fn copied_bytes(&self) -> usize {
        self.weights_copied.iter().map(|(_, retained)| retained.n_bytes()).sum()
    }
}

impl Retained {
    /// How many bytes all pieces have, in memory or not.
    pub const fn n_bytes(&self) -> usize {
        self.usage.virtual_bytes
    }
}

fn constants(graph: &Graph) -> impl Iterator<Item = (&str, &Tensor)> {
    let named = |id| Some((graph.value(id).name.as_str(), graph.constant(id)?));
    graph.value_ids().filter_map(named)
}

/// Why a constant is no slice of the model's bytes; `None` if it is one.
fn copy_reason(name: &str, tensor: &Tensor, origins: &Origins) -> Option<CopyReason> {
    match tensor.view().as_strings() {
        _ if tensor.is_shared() => None,
        Ok(_) => Some(CopyReason::Strings),
        Err(_) if origins.is_not_aligned(name) => Some(CopyReason::NotAligned),
        Err(_) => Some(CopyReason::Computed),
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

/// What is left without a part. Pages may come and go between two looks: never below nothing.
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
