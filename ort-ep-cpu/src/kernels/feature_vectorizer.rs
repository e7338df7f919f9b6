//! FeatureVectorizer of features of every type, on all threads: each copies the parts of its samples, as floats.

// collects are bounded: by the operands

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_ops::ops::ml::feature_vectorizer::{
    FeatureVectorizer, expect_samples, samples_and_features,
};
use ort_tensor::{DType, Number, TensorView, bf16, f16, with_dtype};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 16;

#[derive(Debug)]
struct FeatureVectorizerKernel {
    op: FeatureVectorizer,
}

/// Prepared state for one shape signature.
struct State {
    n: usize,
    width: usize,
    /// Of each input, its own features, and those in the result.
    parts: SmallVec<[(usize, usize); 8]>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let op = compiler.op::<FeatureVectorizer>().cloned();
    Ok(op.map(|op| Box::new(FeatureVectorizerKernel { op }) as Box<dyn Kernel>))
}

impl Kernel for FeatureVectorizerKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let sizes: SmallVec<[(usize, usize); 8]> =
            shapes.iter().map(|shape| samples_and_features(shape)).collect::<Result<_, _>>()?;
        let n = sizes.first().map_or(0, |size| size.0);
        sizes.iter().try_for_each(|size| expect_samples(size.0, n))?;
        let parts = sizes.iter().enumerate().map(|(i, &(_, own))| (own, self.op.length(i, own)));
        let parts: SmallVec<[(usize, usize); 8]> = parts.collect();
        let sum = |sum: usize, part: &(usize, usize)| sum.checked_add(part.1);
        let width = parts.iter().try_fold(0, sum).ok_or(OpError::TooLarge)?;
        Ok(Prepared::new(State { n, width, parts }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { n, width, ref parts } = prepared.state()?;
        let y = io.outputs[0].tensor(DType::F32, &[n, width])?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let inputs: SmallVec<[TensorView<'_>; 8]> =
            (0..parts.len()).map(|i| io.inputs.tensor(i)).collect::<Result<_, _>>()?;
        let rows = Rows { len: width, cost: width.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            let mut at = 0;
            for (x, &(own, length)) in inputs.iter().zip(parts) {
                let first = start / width;
                let y = y.chunks_exact_mut(width).map(|row| &mut row[at..at + length]);
                copy(*x, (first, own), y);
                at += length;
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "feature_vectorizer"
    }
}

/// Copies the features, `own` of each sample, from sample `first` on: to each row as many as fit, and zeros behind.
fn copy<'y>(
    x: TensorView<'_>,
    (first, own): (usize, usize),
    rows: impl Iterator<Item = &'y mut [f32]>,
) {
    with_dtype!(x.dtype(), [f32, f64, f16, bf16, i32, i64], T => {
        let Ok(x) = x.as_slice::<T>() else { return };
        for (i, row) in (first..).zip(rows) {
            let x = &x[i * own..][..own.min(row.len())];
            let (features, rest) = row.split_at_mut(x.len());
            for (y, x) in features.iter_mut().zip(x) {
                *y = f32::from_f64(x.to_f64());
            }
            rest.fill(0.0);
        }
    }, else => ());
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{bf16, f16};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn features_of_all_inputs_stand_side_by_side() {
        let case = || Case::new("FeatureVectorizer", 1).domain("ai.onnx.ml");
        let lengths = |lengths: &[i64]| Attr::Ints(lengths.to_vec());
        for n in [0, 1, 700] {
            let x = || floats(&[n, 3, 7]);
            case().input(x()).check(exact);
            case().input(x()).attr("inputdimensions", lengths(&[30])).check(exact);
            let wide = bytes(&[n, 5], f64::from);
            case().input(wide).input(x()).input(bytes(&[n, 2], i64::from)).check(exact);
            let half = || bytes(&[n, 5], f16::from);
            let case = case().input(half()).input(bytes(&[n, 9], bf16::from));
            let case = case.input(bytes(&[n, 1], i32::from));
            case.clone().check(exact);
            case.attr("inputdimensions", lengths(&[4, 0, 3])).check(exact);
        }
        case().input(floats(&[9])).input(floats(&[4])).check(exact);
    }
}
