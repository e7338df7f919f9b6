//! Packed constants: weights in the layout that a kernel reads.
//!
//! Packing is a pure function of the constant and the recipe, and its result is plain bytes, so
//! the store may keep them in memory, share them between nodes, or find them in a file.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ort_graph::ValueInfo;
use ort_tensor::Tensor;

/// A packing, with everything that its bytes depend on apart from the constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// The packing and its parameters, unique among all kernels: `gemm_f32/b/avx512_14x32`.
    pub name: &'static str,
    /// Parameters of the packing (transposition, groups, …).
    pub parameters: Vec<u64>,
    /// The size of the packed bytes.
    pub n_bytes: usize,
}

/// Who reads a packed constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A kernel while it is compiled, and its runs.
    Kernel,
    /// Runs only: a store may put many constants in one block of memory, which can be read once all kernels are compiled.
    Runs,
}

/// Packed bytes, aligned to 64; a clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Packed(Arc<OnceLock<Bytes>>);

impl Packed {
    /// Packed bytes.
    pub fn new(bytes: Bytes) -> Self {
        Self(Arc::new(OnceLock::from(bytes)))
    }

    /// Sets the bytes, if there are none yet.
    pub fn set(&self, bytes: Bytes) {
        self.0.get_or_init(|| bytes);
    }

    /// The bytes; those for [`Reader::Runs`] are empty before all kernels are compiled.
    pub fn bytes(&self) -> &[u8] {
        self.0.get().map_or(&[], |bytes| bytes)
    }

    /// The bytes, for slices that share their owner.
    pub fn shared(&self) -> Bytes {
        self.0.get().cloned().unwrap_or_default()
    }
}

impl Recipe {
    /// The recipe as text: the name of a packed constant in a file.
    pub fn label(&self) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(u64::to_string).collect();
        format!("{}:{}", self.name, parameters.join(","))
    }
}

/// Provides packed constants, and keeps them.
pub trait PackStore: Sync {
    /// The bytes of a constant packed by `recipe`: from the file, from an earlier call, or made now by
    /// `pack` in a zeroed buffer of `recipe.n_bytes`. `None` if the value is no constant, the file has
    /// neither them nor the constant's elements, or packing is disabled: then the kernel reads the
    /// constant unpacked, or another kernel is selected.
    fn pack(
        &self,
        constant: &ValueInfo,
        recipe: &Recipe,
        reader: Reader,
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<Packed>;
}
