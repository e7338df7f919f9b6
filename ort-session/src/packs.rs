//! Packed constants of one session: from the file, or packed in memory, once for
//! equal recipes of a constant.

// collects are bounded: as long as the graph's lists

mod blocks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use ort_ep::{PackStore, Packed, Reader, Recipe};
use ort_graph::{PackedForm, ValueInfo};
use ort_tensor::{AlignedBuf, Shape, Tensor, go_on};
use web_time::Instant;

use self::blocks::Blocks;
use crate::load_limits::Budget;
use crate::profile::Profiler;

/// Packed constants, by constant and recipe.
#[derive(Debug, Default)]
pub(crate) struct Packs {
    /// Whether the file's packed constants match these kernels.
    takes_forms: bool,
    profiler: Profiler,
    /// The memory budget.
    budget: Arc<Budget>,
    /// Whether packing is disabled.
    declines: bool,
    /// Blocks of those that only runs read; none for a kernel that runs at once.
    blocks: Option<Blocks>,
    made: Mutex<HashMap<(ConstantId, Recipe, Reader), Arc<OnceLock<Option<PackedConstant>>>>>,
}

/// Identifies a constant by the address of its elements, and its shape. All constants live as long as the graph
/// is being compiled, so addresses are unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConstantId(usize, Shape);

impl ConstantId {
    pub(crate) fn of(constant: &Tensor) -> Self {
        Self(constant.address(), constant.shape().into())
    }
}

/// One packed constant.
#[derive(Clone, Debug)]
pub(crate) struct PackedConstant {
    constant: ConstantId,
    pub(crate) label: String,
    pub(crate) packed: Packed,
    /// Whether it is a slice of the file.
    pub(crate) is_of_file: bool,
}

impl Packs {
    /// No packed constants yet. `takes_forms`: whether those of the file match.
    pub(crate) fn new(takes_forms: bool, profiler: Profiler, budget: Arc<Budget>) -> Self {
        let blocks = Some(Blocks::default());
        Self { takes_forms, profiler, budget, blocks, ..Self::default() }
    }

    /// A store that packs nothing: kernels read constants unpacked.
    pub(crate) fn declining() -> Self {
        Self { declines: true, ..Self::default() }
    }

    /// All packed constants, in a deterministic order. From now on runs can read them.
    pub(crate) fn into_packs(self) -> Vec<PackedConstant> {
        self.blocks.into_iter().for_each(Blocks::finish);
        let made = self.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        let packs = made.into_values().filter_map(|pack| pack.get().cloned().flatten());
        let mut packs: Vec<PackedConstant> = packs.collect();
        packs.sort_by(|a, b| (&a.constant, &a.label).cmp(&(&b.constant, &b.label)));
        packs
    }

    fn get(
        &self,
        constant: &ValueInfo,
        (recipe, reader): (&Recipe, Reader),
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<PackedConstant> {
        let tensor = constant.fact.constant.as_ref()?;
        let label = recipe.label();
        let mut forms = constant.packed.iter().filter(|_| self.takes_forms);
        let form = forms.find(|form| form.label == label && form.bytes.len() == recipe.n_bytes);
        let (packed, is_of_file) = match form {
            Some(form) if form.bytes.as_ptr().align_offset(AlignedBuf::ALIGN) == 0 => {
                (Packed::new(form.bytes.clone()), true)
            }
            None if tensor.is_released() => return None,
            _ if !self.budget.take(recipe.n_bytes, &constant.name) => return None,
            Some(form) => {
                let copy = AlignedBuf::try_lasting_copy_of(&form.bytes).ok()?;
                (Packed::new(Bytes::from_owner(copy)), false)
            }
            None => {
                let start = Instant::now();
                let elements = tensor.materialized().ok()?;
                let pack = |to: &mut [u8]| pack(&elements, to);
                let packed = match (&self.blocks, reader) {
                    (Some(blocks), Reader::Runs) => blocks.pack(recipe.n_bytes, pack)?,
                    _ => blocks::alone(recipe.n_bytes, pack)?,
                };
                // What was packed when the load was cancelled is incomplete.
                go_on().ok()?;
                self.profiler.note("pack", (start, Instant::now()), || {
                    let n_bytes = recipe.n_bytes.to_string();
                    vec![
                        ("constant", constant.name.clone()),
                        ("recipe", label.clone()),
                        ("bytes", n_bytes),
                    ]
                });
                (packed, false)
            }
        };
        Some(PackedConstant { constant: ConstantId::of(tensor), label, packed, is_of_file })
    }
}

impl PackStore for Packs {
    fn pack(
        &self,
        constant: &ValueInfo,
        recipe: &Recipe,
        reader: Reader,
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<Packed> {
        if self.declines {
            return None;
        }
        let id = ConstantId::of(constant.fact.constant.as_ref()?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let place = made.entry((id, recipe.clone(), reader)).or_default().clone();
        drop(made);
        // If two threads need the same packing, the second waits for the first, without holding the lock.
        let pack = place.get_or_init(|| self.get(constant, (recipe, reader), pack));
        pack.as_ref().map(|pack| pack.packed.clone())
    }
}

/// The packed forms of each constant.
pub(crate) fn forms(packs: &[PackedConstant]) -> HashMap<ConstantId, Vec<PackedForm>> {
    let mut forms: HashMap<ConstantId, Vec<PackedForm>> = HashMap::new();
    for PackedConstant { constant, label, packed, .. } in packs {
        let form = PackedForm { label: label.clone(), bytes: packed.shared() };
        forms.entry(constant.clone()).or_default().push(form);
    }
    forms
}

#[cfg(test)]
mod tests {
    use ort_graph::Graph;

    use super::*;

    #[test]
    fn only_what_runs_read_waits_for_all_kernels() {
        let mut graph = Graph::default();
        let id = graph.add_constant("w", Tensor::scalar(1_f32)).unwrap();
        let pack = |packs: &Packs, n_bytes, byte, reader| {
            let recipe = Recipe { name: "filled", parameters: Vec::new(), n_bytes };
            packs.pack(graph.value(id), &recipe, reader, &mut |_, to| to.fill(byte)).unwrap()
        };
        let packs = Packs::new(false, Profiler::default(), Arc::default());
        let later = [pack(&packs, 600_000, 1, Reader::Runs), pack(&packs, 40_000, 2, Reader::Runs)];
        assert!(later.iter().all(|packed| packed.bytes().is_empty()));
        let now = pack(&packs, 40_000, 3, Reader::Kernel);
        assert_eq!(now.bytes(), [3; 40_000]);
        // The second request for the same.
        assert_eq!(pack(&packs, 40_000, 4, Reader::Kernel).bytes(), now.bytes());
        assert_eq!(packs.into_packs().len(), 3);
        assert_eq!(later[0].bytes(), vec![1; 600_000]);
        assert_eq!(later[1].bytes(), [2; 40_000]);
        assert_eq!(pack(&Packs::default(), 600_000, 5, Reader::Runs).bytes(), vec![5; 600_000]);
    }
}
