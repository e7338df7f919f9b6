//! Packed constants: what a kernel wants its weights to look like.
//!
//! Packing is a pure function of the constant and the recipe, and what comes out is just bytes; so
//! the store may keep them in memory, share them between nodes, or find them in a file.

use bytes::Bytes;
use ort_graph::ValueInfo;
use ort_tensor::Tensor;

/// Which packing, with everything that its bytes depend on apart from the constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// The packing and its parameters, unique among all kernels: `gemm_f32/b/avx512_14x32`.
    pub name: &'static str,
    /// Numbers that the packing depends on (transposition, groups, …).
    pub parameters: Vec<u64>,
    /// How many bytes come out.
    pub n_bytes: usize,
}

/// Packed bytes, aligned to 64; a clone shares them.
#[derive(Clone, Debug)]
pub struct Packed(Bytes);

impl Packed {
    /// Packed bytes.
    pub const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, for slices that share their owner.
    pub const fn shared(&self) -> &Bytes {
        &self.0
    }
}

impl Recipe {
    /// The recipe as text: what a packed form is called in a file.
    pub fn label(&self) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(u64::to_string).collect();
        format!("{}:{}", self.name, parameters.join(","))
    }
}

/// Where packed constants come from and stay.
pub trait PackStore: Sync {
    /// The bytes of a constant packed by `recipe`: those that the file has, those that were packed
    /// before, or those that `pack` makes of it now, in a zeroed buffer of `recipe.n_bytes`. `None`
    /// if the value is no constant, the file has neither them nor the constant's elements, or nothing
    /// is to be packed: then the kernel reads the constant as it stands, or leaves it to others.
    fn pack(
        &self,
        constant: &ValueInfo,
        recipe: &Recipe,
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<Packed>;
}
