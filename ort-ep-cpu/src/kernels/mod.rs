//! The kernels. `kernels!` declares each file and registers its definition, in the order in which
//! they are tried: the first that accepts a node compiles it.

use std::ops::Range;

use bytemuck::Pod;
use ort_ep::{Claim, CompileError, Kernel, PackStore, Packed, Reader, Recipe};
use ort_graph::{Dim, Fact, Graph, NodeId, Operator};
use ort_tensor::{DType, Tensor};

use crate::cpu::Cpu;

/// The interface of a kernel file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelDef {
    /// Claims nodes together with a root, or more in-place pairs than the operator's `eval` supports;
    /// `None` leaves the root to other kernels, which may still compile it as one node.
    pub(crate) claim: fn(&Graph, NodeId) -> Option<Claim>,
    /// The kernel for a claim; `None` if this file does not support it.
    pub(crate) compile: fn(&Compiler<'_>) -> Compiled,
}

/// The kernel for a claim; `None` if the file does not support it.
pub(crate) type Compiled = Result<Option<Box<dyn Kernel>>, CompileError>;

impl KernelDef {
    /// A kernel that claims single nodes.
    const fn one(compile: fn(&Compiler<'_>) -> Compiled) -> Self {
        Self { claim: |_, _| None, compile }
    }
}

/// The inputs of compilation.
pub(crate) struct Compiler<'a> {
    pub(crate) cpu: Cpu,
    pub(crate) graph: &'a Graph,
    pub(crate) claim: &'a Claim,
    pub(crate) packs: &'a dyn PackStore,
}

impl<'a> Compiler<'a> {
    /// The operator of the claim's only node, if it is a `T`.
    pub(crate) fn op<T: Operator>(&self) -> Option<&'a T> {
        match self.claim.nodes.as_slice() {
            [id] => op(self.graph, *id),
            _ => None,
        }
    }

    /// The fact of an input; `None` if it is absent.
    pub(crate) fn fact(&self, input: usize) -> Option<&'a Fact> {
        self.claim.inputs.get(input).copied().flatten().map(|id| self.graph.fact(id))
    }

    /// Whether an input is absent, or known to have one element.
    pub(crate) fn is_one_or_none(&self, input: usize) -> bool {
        let is_one = |dims: &[Dim]| dims.iter().all(|dim| *dim == Dim::Known(1));
        self.fact(input).is_none_or(|fact| fact.dims().is_some_and(is_one))
    }

    /// The contents of a constant input.
    pub(crate) fn constant(&self, input: usize) -> Option<&'a Tensor> {
        self.graph.constant(self.claim.inputs.get(input).copied().flatten()?)
    }

    /// The constant at `input`, with elements of type `T`, packed by `recipe` to other elements; `None` if there
    /// is no such constant.
    pub(crate) fn pack<T: Pod>(
        &self,
        input: usize,
        recipe: &Recipe,
        pack: impl Fn(&[T], &mut [T]),
    ) -> Option<Packed> {
        self.packed(input, recipe, Reader::Kernel, pack)
    }

    /// The same for a constant that is read packed by runs only, and not when kernels are compiled.
    pub(crate) fn pack_for_runs<S: Pod, T: Pod>(
        &self,
        input: usize,
        recipe: &Recipe,
        pack: impl FnMut(&[S], &mut [T]),
    ) -> Option<Packed> {
        self.packed(input, recipe, Reader::Runs, pack)
    }

    fn packed<S: Pod, T: Pod>(
        &self,
        input: usize,
        recipe: &Recipe,
        reader: Reader,
        mut pack: impl FnMut(&[S], &mut [T]),
    ) -> Option<Packed> {
        let id = self.claim.inputs.get(input).copied().flatten()?;
        self.packs.pack(self.graph.value(id), recipe, reader, &mut |constant, packed| {
            let elements = constant.view().as_bytes().unwrap_or_default();
            pack(bytemuck::cast_slice(elements), bytemuck::cast_slice_mut(packed));
        })
    }

    /// The element type of these inputs, if the first is present and all present ones agree.
    pub(crate) fn dtype_of(&self, mut inputs: Range<usize>) -> Option<DType> {
        let dtype = self.fact(inputs.start)?.dtype()?;
        let is_same = |input| self.fact(input).is_none_or(|fact| fact.dtype() == Some(dtype));
        inputs.all(is_same).then_some(dtype)
    }

    /// Whether the first of these inputs is present, and all present ones are f32.
    pub(crate) fn are_f32(&self, inputs: Range<usize>) -> bool {
        let is_f32 = |input| self.fact(input).is_none_or(|fact| fact.dtype() == Some(DType::F32));
        self.fact(inputs.start).is_some() && inputs.into_iter().all(is_f32)
    }
}

/// The operator of a node, if it is a `T`.
pub(crate) fn op<T: Operator>(graph: &Graph, id: NodeId) -> Option<&T> {
    graph.get_node(id)?.operator()
}

/// `named!(isa => "gemm_f32": "avx512_14x32", "avx2_6x16", "generic")`: the name of a variant.
macro_rules! named {
    ($isa:expr => $kernel:literal: $avx512:literal, $avx2:literal, $generic:literal) => {
        named!($isa => $kernel: $avx512, $avx2, $generic, $generic, $generic)
    };
    ($isa:expr => $kernel:literal: $avx512:literal, $avx2:literal, $neon:literal, $simd128:literal, $generic:literal) => {
        match $isa {
            ort_kernels::Isa::Amx(_) | ort_kernels::Isa::Avx512(_) => concat!($kernel, "/", $avx512),
            ort_kernels::Isa::Avx2(_) => concat!($kernel, "/", $avx2),
            ort_kernels::Isa::Neon(_) => concat!($kernel, "/", $neon),
            ort_kernels::Isa::Simd128(_) => concat!($kernel, "/", $simd128),
            ort_kernels::Isa::Generic => concat!($kernel, "/", $generic),
        }
    };
    // Whether matrix tiles are faster depends on the size of a product.
    ($isa:expr => $kernel:literal: product) => {
        match $isa {
            ort_kernels::Isa::Amx(_) => concat!($kernel, "/amx_32x32 or avx512_14x32"),
            isa => named!(isa => $kernel: tile),
        }
    };
    ($isa:expr => $kernel:literal: tile) => {
        named!($isa => $kernel: "avx512_14x32", "avx2_6x16", "neon_12x8", "simd128_4x8", "generic")
    };
    ($isa:expr => $kernel:literal) => { named!($isa => $kernel: "avx512", "avx2", "neon", "simd128", "generic") };
}

pub(crate) use named;

/// Declares the modules and collects their `DEF`s.
macro_rules! kernels {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// The definitions of every file, under its name.
        pub(crate) static ALL: &[(&str, KernelDef)] = &[$((stringify!($module), $module::DEF)),*];
    };
}

// One per line.
kernels! {
    affine_grid,
    arg_max,
    attention,
    batch_norm,
    binary,
    byte_average,
    byte_binary,
    byte_conv,
    byte_matmul,
    byte_matmul_pairs,
    byte_mean,
    byte_norm,
    byte_pool,
    byte_softmax,
    byte_table,
    cast,
    cdist,
    class_loss,
    col2im,
    compress,
    concat,
    conv_transpose,
    // Before `chain`: the epilogue of a convolution must not start a chain.
    nchwc_conv,
    chain,
    conv,
    crop_and_resize,
    cumulative,
    deform_conv,
    det,
    dynamic_quantize,
    dynamic_quantize_lstm,
    einsum,
    embed_layer_norm,
    feature_vectorizer,
    forest,
    fourier,
    gather,
    gather_block_quantized,
    gather_elements,
    gemm,
    grid_sample,
    group_norm,
    hardmax,
    inverse,
    layer_norm,
    linear_model,
    log_sum_exp,
    lp_normalization,
    lp_pool,
    lrn,
    matmul,
    matmul_integer16,
    matmul_nbits,
    max_pool,
    max_unpool,
    maxpool_with_mask,
    mean_variance_normalization,
    moe,
    nchwc_pool,
    nchwc_reorder,
    nchwc_upsample,
    non_max_suppression,
    non_zero,
    normalizer,
    pad,
    pool,
    qmoe,
    quantize,
    reduce,
    folds,
    resize,
    resize_numbers,
    reverse_sequence,
    rnn,
    roi,
    rotary_embedding,
    scatter,
    softmax,
    split,
    strided_view,
    tensor_scatter,
    top_k,
    transpose,
    trilu,
    unary,
    unary_f64,
    variadic,
    where_,
    window,
    // After the kernels of specific types.
    elements,
    halves,
    pairs,
    mixed_pow,
    widened,
}
