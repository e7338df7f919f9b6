//! Packed constants of one session, in memory. Equal packings of one constant are made once.

use std::collections::HashMap;

use bytes::Bytes;
use ort_ep::{PackStore, Packed, Recipe};
use ort_tensor::{AlignedBuf, Tensor};

/// Packed constants, by constant and recipe.
#[derive(Debug, Default)]
pub(crate) struct MemoryPacks {
    packed: HashMap<(usize, Recipe), Packed>,
}

impl MemoryPacks {
    /// All of them, each with the name of its packing.
    pub(crate) fn into_packed(self) -> Vec<(&'static str, Packed)> {
        self.packed.into_iter().map(|((_, recipe), packed)| (recipe.name, packed)).collect()
    }
}

impl PackStore for MemoryPacks {
    fn pack(
        &mut self,
        constant: &Tensor,
        recipe: &Recipe,
        pack: &mut dyn FnMut(&mut [u8]),
    ) -> Packed {
        // All constants live as long as the graph that is being compiled, so an address is a name.
        let address = constant.view().as_bytes().map_or(0, |bytes| bytes.as_ptr().addr());
        let packed = self.packed.entry((address, recipe.clone())).or_insert_with(|| {
            let mut buf = AlignedBuf::zeroed(recipe.n_bytes);
            pack(buf.as_mut());
            Packed::new(Bytes::from_owner(buf))
        });
        packed.clone()
    }
}
