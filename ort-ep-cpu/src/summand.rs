//! The element types that products are computed in, and the mapping from tensor types to them.

// collects are bounded: used by tests only

use std::fmt::Debug;

use ort_kernels::gemm::halves::PackedHalves;
use ort_kernels::gemm::{Element, Panels, Slice};
use ort_kernels::{Activation, Isa};
use ort_ops::activation::Activation as Function;
use ort_tensor::DType;

use crate::epilogue::Epilogue;
use crate::kernels::named;

/// An element type with product kernels.
pub(crate) trait Summand: Element {
    /// The epilogue of a product.
    type Epilogue: Clone + Copy + Debug + Send + Sync;
    /// The name of a packed constant right operand.
    const PACKED: &'static str;
    /// The cost of a multiply-add, in those of f32: with AVX-512, products of matrices of 512² take 2.2 (f64), 2.8 (i32)
    /// and 7.6 times as long (i64).
    const COST: usize;

    /// The factor, which [`is_factor`] accepts.
    fn factor(of: f32) -> Self;

    /// The part that the kernel itself applies.
    fn fused(epilogue: Self::Epilogue) -> Self::Activation;

    /// Applies what the kernel did not fuse to finished results.
    fn finish(epilogue: Self::Epilogue, results: &mut [Self]);

    /// The epilogue that does nothing.
    fn no_epilogue() -> Self::Epilogue;

    /// The epilogue of an activation; only f32 has any.
    fn epilogue_of(activation: Function) -> Self::Epilogue;

    /// The name of the kernels for an instruction set.
    fn variant_name(isa: Isa) -> &'static str;

    /// Writes panels of a right operand in 16-bit floats, which only products in f32 have.
    fn write_halves(b: &PackedHalves<'_>, slice: &Slice, panels: &mut [Self]) {
        unreachable!("invariant: {b:?} is an operand in f32: {slice:?}, {}", panels.len())
    }
}

impl Summand for f32 {
    type Epilogue = Epilogue;
    const PACKED: &'static str = "gemm_f32/b";
    const COST: usize = 1;

    fn factor(of: f32) -> Self {
        of
    }

    fn fused(epilogue: Epilogue) -> Activation {
        epilogue.fused()
    }

    fn finish(epilogue: Epilogue, results: &mut [f32]) {
        epilogue.finish(results);
    }

    fn no_epilogue() -> Epilogue {
        Epilogue::Fused(Activation::None)
    }

    fn epilogue_of(activation: Function) -> Epilogue {
        activation.into()
    }

    fn variant_name(isa: Isa) -> &'static str {
        named!(isa => "gemm_f32": product)
    }

    fn write_halves(b: &PackedHalves<'_>, slice: &Slice, panels: &mut [f32]) {
        b.write(slice, panels);
    }
}

macro_rules! summands {
    ($($element:ident: $kernel:literal, $cost:literal, $avx512:literal, $avx2:literal, $of:ident => $factor:expr;)+) => {$(
        impl Summand for $element {
            type Epilogue = ();
            const PACKED: &'static str = concat!($kernel, "/b");
            const COST: usize = $cost;

            fn factor($of: f32) -> Self {
                $factor
            }

            fn fused((): ()) {}

            fn finish((): (), _: &mut [Self]) {}

            fn no_epilogue() {}

            fn epilogue_of(_: Function) {}

            fn variant_name(isa: Isa) -> &'static str {
                named!(isa => $kernel: $avx512, $avx2, "generic")
            }
        }
    )+};
}

summands! {
    f64: "gemm_f64", 2, "avx512_8x16", "avx2_6x8", of => f64::from(of);
    // Other factors are rejected.
    i32: "gemm_i32", 3, "avx512_8x32", "avx2_4x16", of => if of == 0.0 { 0 } else { 1 };
    i64: "gemm_i64", 8, "avx512_8x16", "avx2_4x8", of => if of == 0.0 { 0 } else { 1 };
}

/// Whether products of a type support this factor: integers only 0 and 1, since others would round.
pub(crate) fn is_factor(dtype: DType, factor: f32) -> bool {
    dtype.is_float() || factor == 0.0 || factor == 1.0
}

/// Whether there are kernels for products of a type.
pub(crate) fn is_summand(dtype: DType) -> bool {
    use DType::{F32, F64, I32, I64, U32, U64};
    matches!(dtype, F32 | F64 | I32 | I64 | U32 | U64)
}

/// Evaluates an expression where `$stored` is a tensor's element type, and `$summed` the
/// [`Summand`] of the same width in which its products are computed.
macro_rules! with_summand {
    ($dtype:expr, ($stored:ident, $summed:ident) => $body:expr) => {
        match $dtype {
            ort_tensor::DType::F64 => with_summand!(@as $stored f64, $summed f64 => $body),
            ort_tensor::DType::I32 => with_summand!(@as $stored i32, $summed i32 => $body),
            ort_tensor::DType::U32 => with_summand!(@as $stored u32, $summed i32 => $body),
            ort_tensor::DType::I64 => with_summand!(@as $stored i64, $summed i64 => $body),
            ort_tensor::DType::U64 => with_summand!(@as $stored u64, $summed i64 => $body),
            _ => with_summand!(@as $stored f32, $summed f32 => $body),
        }
    };
    (@as $stored:ident $s:ty, $summed:ident $t:ty => $body:expr) => {{
        type $stored = $s;
        type $summed = $t;
        $body
    }};
}
pub(crate) use with_summand;

/// Small pseudo-random non-negative integers of a type.
#[cfg(test)]
pub(crate) fn of_type(dtype: DType, shape: &[usize]) -> ort_tensor::Tensor {
    use ort_tensor::{Number, Tensor, with_dtype};
    let wide = crate::case::integers(shape);
    let wide = wide.as_slice::<f32>().unwrap().iter().map(|&x| f64::from(x) + 3.0);
    with_dtype!(dtype, number,
        T => Tensor::from_slice(shape, &wide.map(<T as Number>::from_f64).collect::<Vec<T>>()).unwrap(),
        else => panic!("no product is of {dtype}"))
}
