//! MatMul: `y[…, m, n] = alpha · Σ a[…, m, k]·b[…, k, n]`, with NumPy's broadcasting.

// collects are bounded: by the rank, or into checked allocations

use std::sync::Arc;

use ort_graph::{Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Element, Inputs, Output, Pace, Room, Shape, TensorError, TensorView, broadcast_strides,
    by_pieces, collected, n_elements, row_major_strides, with_dtype,
};

use crate::accumulate::{Accumulate, Sum, multiply_add, zeros};
use crate::infer::{known_dim, matmul_dims, matmul_shape, product_flops};
use crate::integer::{multiply, transposed};
use crate::offsets::Offsets;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "MatMul",
        versions: (1, 13),
        types: DType::is_number,
        build: MatMul::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "FusedMatMul",
        versions: (1, 1),
        types: DType::is_float,
        build: MatMul::build_fused,
    },
    OpDef {
        domain: "com.microsoft",
        name: "TransposeMatMul",
        versions: (1, 1),
        types: DType::is_float,
        build: MatMul::build_fused,
    },
];

/// MatMul: `y = alpha · a'·b'`. `a` and `b`: at least rank 1, any number type; an operand of rank
/// 1 is a row or a column, and leaves no dimension. Integers wrap. Without terms the sum is 0.
///
/// `FusedMatMul` rearranges an operand first: `is_batch_transposed` moves its first dimension
/// behind the batch (`[m, …, k]` to `[…, m, k]`), `is_transposed` then swaps the last two; neither changes an operand
/// of rank 1.
///
/// Source: ONNX operator set, MatMul-13; com.microsoft, FusedMatMul-1 and TransposeMatMul-1 (ONNX
/// Runtime 1.31). ONNX Runtime and the standard lack 8- and 16-bit integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatMul {
    /// How the left operand is rearranged.
    pub a: Arrangement,
    /// How the right operand is rearranged.
    pub b: Arrangement,
    /// The factor of the product.
    pub alpha: f32,
    /// Whether integers are supported.
    has_integers: bool,
}

impl MatMul {
    /// The plain product of integers.
    pub const INTEGERS: Self = {
        let as_stored = Arrangement { is_transposed: false, is_batch_transposed: false };
        Self { a: as_stored, b: as_stored, alpha: 1.0, has_integers: true }
    };
}

/// The memory layout of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// The last two dimensions are swapped.
    pub is_transposed: bool,
    /// The first dimension is the row, the batch comes after it.
    pub is_batch_transposed: bool,
}

impl Arrangement {
    /// For each dimension of the matrix batch, the dimension of the stored operand.
    pub fn perm(self, rank: usize) -> Shape {
        let mut perm: Shape = (0..rank).collect();
        if rank >= 2 && self.is_batch_transposed {
            perm[..rank - 1].rotate_left(1);
        }
        if rank >= 2 && self.is_transposed {
            perm.swap(rank - 2, rank - 1);
        }
        perm
    }
}

impl MatMul {
    fn build(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let plain = Arrangement::default();
        Ok(Arc::new(Self { a: plain, b: plain, alpha: 1.0, has_integers: true }))
    }

    fn build_fused(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let a = Arrangement {
            is_transposed: spec.flag("transA", false)?,
            is_batch_transposed: spec.flag("transBatchA", false)?,
        };
        let b = Arrangement {
            is_transposed: spec.flag("transB", false)?,
            is_batch_transposed: spec.flag("transBatchB", false)?,
        };
        let alpha = spec.float("alpha")?.unwrap_or(1.0);
        Ok(Arc::new(Self { a, b, alpha, has_integers: false }))
    }
}

impl Operator for MatMul {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let allowed = if self.has_integers { DType::is_number } else { DType::is_float };
        let dtype = inputs.dtype(0, allowed)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        let (Some(a), Some(b)) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims()) else {
            return Ok(vec![Fact::unranked(dtype)]);
        };
        let rearranged = |dims: &[ort_graph::Dim], arrangement: Arrangement| -> Dims {
            arrangement.perm(dims.len()).iter().map(|&axis| dims[axis].clone()).collect()
        };
        let dims = matmul_dims(&rearranged(a, self.a), &rearranged(b, self.b))?;
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        with_dtype!(a.dtype(), number, T => {
            let a = Operand::new::<T>(a, self.a)?;
            let b = Operand::new::<T>(b, self.b)?;
            let product = Product::new(&a.shape, &b.shape)?;
            let sums = product.compute(&a.data, &b.data)?;
            let y = outputs[0].tensor(T::DTYPE, &product.shape)?.into_slice::<T>()?;
            let narrow = |sum: &<T as Accumulate>::Sum| T::narrow(sum.scale(self.alpha));
            Ok(by_pieces(y, |at, y| {
                y.iter_mut().zip(&sums[at..]).for_each(|(y, sum)| *y = narrow(sum));
            })?)
        }, else => {
            let found = Box::new(Fact::shaped(a.dtype(), a.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
        let inner = self.a.perm(rank).last().and_then(|&axis| known_dim(inputs, 0, axis));
        product_flops(inner, outputs.first())
    }
}

/// An operand in the order of a batch of matrices, widened.
struct Operand<S> {
    shape: Shape,
    data: Vec<S>,
}

impl<S: Sum> Operand<S> {
    fn new<T: Accumulate<Sum = S>>(
        x: TensorView<'_>,
        arrangement: Arrangement,
    ) -> Result<Self, OpError> {
        let perm = arrangement.perm(x.shape().len());
        let shape: Shape = perm.iter().map(|&axis| x.shape()[axis]).collect();
        let source = x.as_slice::<T>()?;
        if perm.iter().copied().eq(0..perm.len()) {
            let data = collected(source.iter().map(|x| x.widen()))?;
            return Ok(Self { shape, data });
        }
        let own = row_major_strides(x.shape());
        let strides: Shape = perm.iter().map(|&axis| own[axis]).collect();
        let (mut data, mut pace) = (Room::with_room(source.len())?, Pace::new());
        let (outer, matrix) = shape.split_at(shape.len() - 2);
        for start in Offsets::new(outer, &strides) {
            for row in 0..matrix[0] {
                let first = start + row * strides[outer.len()];
                let step = strides[outer.len() + 1];
                pace.go(matrix[1])?;
                data.extend((0..matrix[1]).map(|column| source[first + column * step].widen()))?;
            }
        }
        Ok(Self { shape, data: data.into_vec() })
    }
}

/// A batch of matrix products: which matrices are multiplied, and how large they are.
pub(crate) struct Product {
    /// The shape of the result.
    pub(crate) shape: Shape,
    batch: Shape,
    a_strides: Shape,
    b_strides: Shape,
    m: usize,
    k: usize,
    n: usize,
}

impl Product {
    /// The product of row-major operands of these shapes.
    ///
    /// # Errors
    /// If they do not fit.
    pub(crate) fn new(a: &[usize], b: &[usize]) -> Result<Self, OpError> {
        let shape = matmul_shape(a, b)?;
        let m = if a.len() > 1 { a[a.len() - 2] } else { 1 };
        let n = if b.len() > 1 { b[b.len() - 1] } else { 1 };
        let k = a[a.len() - 1];
        let n_batch = a.len().max(b.len()).saturating_sub(2);
        let batch = Shape::from_slice(&shape[..n_batch]);
        let a_batch = &a[..a.len().saturating_sub(2)];
        let b_batch = &b[..b.len().saturating_sub(2)];
        let scaled = |dims: &[usize], size: usize| -> Shape {
            broadcast_strides(dims, &batch).iter().map(|n| n.saturating_mul(size)).collect()
        };
        let a_strides = scaled(a_batch, m.saturating_mul(k));
        let b_strides = scaled(b_batch, k.saturating_mul(n));
        Ok(Self { a_strides, b_strides, shape, batch, m, k, n })
    }

    /// The shape of the result with the rows and columns of vectors.
    pub(crate) fn matrices(&self) -> Shape {
        self.batch.iter().copied().chain([self.m, self.n]).collect()
    }

    /// The sums of all elements, row-major.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn compute<S: Sum>(&self, a: &[S], b: &[S]) -> Result<Vec<S>, OpError> {
        self.for_each_matrix(a, b, |a, b, c| multiply_add(a, b, c, self.n))
    }

    /// The sums of all elements, row-major, of differences of 8-bit quantized values.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn compute_exact(&self, a: &[i16], b: &[i16]) -> Result<Vec<i64>, OpError> {
        let b = transposed(b, self.k, self.n)?;
        self.for_each_matrix(a, &b, |a, b, c| {
            multiply(a, b, self.k, |i, j, sum| c[i * self.n + j] = sum)
        })
    }

    /// Calls `fill` with each pair of non-empty matrices, and their result.
    fn for_each_matrix<T, S: Sum>(
        &self,
        a: &[T],
        b: &[T],
        fill: impl Fn(&[T], &[T], &mut [S]) -> Result<(), TensorError>,
    ) -> Result<Vec<S>, OpError> {
        let n_sums = n_elements(&self.shape).ok_or(OpError::TooLarge)?;
        let mut sums = zeros(n_sums)?;
        if n_sums == 0 || self.k == 0 {
            return Ok(sums);
        }
        let starts = Offsets::new(&self.batch, &self.a_strides)
            .zip(Offsets::new(&self.batch, &self.b_strides));
        for (c, (a_start, b_start)) in sums.chunks_exact_mut(self.m * self.n).zip(starts) {
            let a = &a[a_start..a_start + self.m * self.k];
            let b = &b[b_start..b_start + self.k * self.n];
            fill(a, b, c)?;
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn counted(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        tensor(shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>())
    }

    #[test]
    fn matrices_vectors_and_batches_multiply() {
        let cases: [(&[usize], &[usize], &[usize], &[f32]); 6] = [
            (&[2, 3], &[3, 2], &[2, 2], &[10.0, 13.0, 28.0, 40.0]),
            (&[3], &[3], &[], &[5.0]),
            (&[2], &[2, 3], &[3], &[3.0, 4.0, 5.0]),
            (&[2, 2], &[2], &[2], &[1.0, 3.0]),
            (&[2, 1, 1, 2], &[2, 2, 1], &[2, 2, 1, 1], &[1.0, 3.0, 3.0, 13.0]),
            (&[2, 0], &[0, 1], &[2, 1], &[0.0, 0.0]),
        ];
        for (a, b, shape, expected) in cases {
            let y = Case::new("MatMul", 13).tensor(&[counted(a), counted(b)]);
            assert_eq!(y, Ok(tensor(shape, expected)), "{a:?}·{b:?}");
        }
        let empty = Case::new("MatMul", 13).tensor(&[counted(&[0, 3]), counted(&[3, 2])]);
        assert_eq!(empty, Ok(counted(&[0, 2])));
        assert!(Case::new("MatMul", 13).tensor(&[counted(&[2, 3]), counted(&[2, 3])]).is_err());
    }

    #[test]
    fn integers_wrap_and_small_floats_round_once() {
        let i8s = tensor(&[1, 2], &[100_i8, 100]);
        let y = Case::new("MatMul", 13).tensor(&[i8s, tensor(&[2, 1], &[2_i8, 1])]);
        assert_eq!(y, Ok(tensor(&[1, 1], &[44_i8])));
        let one = tensor(&[1, 3], &[f16::from_f32(2048.0), f16::ONE, f16::ONE]);
        let y = Case::new("MatMul", 13).tensor(&[one, tensor(&[3, 1], &[f16::ONE; 3])]);
        assert_eq!(y, Ok(tensor(&[1, 1], &[f16::from_f32(2050.0)])));
        let halves = tensor(&[1], &[bf16::ONE]);
        let y = Case::new("MatMul", 13).tensor(&[halves.clone(), halves]);
        assert_eq!(y, Ok(tensor(&[], &[bf16::ONE])));
    }

    #[test]
    fn fused_operands_are_rearranged_first() {
        // [m, batch, k] stored, transposed in the last two after the batch came to the front.
        let fused = || Case::new("FusedMatMul", 1).domain("com.microsoft");
        let flag = Attr::Int(1);
        let a = counted(&[2, 3]);
        let y = fused().attr("transA", flag.clone()).attr("alpha", Attr::Float(0.5));
        let expected = tensor(&[3, 1], &[1.5_f32, 2.0, 2.5]);
        assert_eq!(y.tensor(&[a, tensor(&[2, 1], &[0_f32, 1.0])]), Ok(expected));
        let y = fused().attr("transB", flag.clone());
        let product = y.tensor(&[counted(&[2, 3]), counted(&[1, 3])]);
        assert_eq!(product, Ok(tensor(&[2, 1], &[5_f32, 14.0])));
        let y = fused().attr("transBatchA", flag);
        let product = y.tensor(&[counted(&[2, 3, 1]), tensor(&[1, 1], &[1_f32])]);
        assert_eq!(product, Ok(tensor(&[3, 2, 1], &[0_f32, 3.0, 1.0, 4.0, 2.0, 5.0])));
    }

    #[test]
    fn other_types_and_mixed_types_are_refused() {
        let strings = Tensor::zeros(DType::String, &[1]).unwrap();
        assert!(Case::new("MatMul", 13).tensor(&[strings.clone(), strings]).is_err());
        let mixed = [counted(&[1]), tensor(&[1], &[1_i32])];
        assert!(Case::new("MatMul", 13).tensor(&mixed).is_err());
    }
}
