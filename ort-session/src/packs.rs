//! Packed constants of one session, in memory. Equal packings of one constant are made once.

use std::collections::HashMap;

use bytes::Bytes;
use ort_ep::{PackStore, Packed, Recipe};
use ort_tensor::{AlignedBuf, Tensor};

/// Packed constants, by constant and recipe.
#[derive(Debug, Default)]
pub(crate) struct MemoryPacks {
    packed: HashMap<(usize, Recipe), Packed>,
    n_bytes: usize,
}

impl MemoryPacks {
    /// How many bytes were packed.
    pub(crate) const fn n_bytes(&self) -> usize {
        self.n_bytes
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
            let mut buf = AlignedBuf::lasting(recipe.n_bytes);
            pack(buf.as_mut());
            self.n_bytes += recipe.n_bytes;
            Packed::new(Bytes::from_owner(buf))
        });
        packed.clone()
    }
}
