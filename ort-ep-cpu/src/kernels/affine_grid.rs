//! AffineGrid in f32 and f64, row by row: the terms of the last axis are precomputed, and those of the row are added,
//! in f64 and in the order of `eval`.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::ops::affine_grid::AffineGrid;
use ort_tensor::{DType, Number, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct AffineGridKernel {
    cpu: Cpu,
    op: AffineGrid,
    dtype: DType,
    /// The shape of the result, if the sizes are constant.
    shape: Shape,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<AffineGrid>() else { return Ok(None) };
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let dtype = dtype.filter(|dtype| matches!(dtype, DType::F32 | DType::F64));
    let result = compiler.claim.outputs.first().copied().flatten();
    let shape = result.and_then(|result| compiler.graph.fact(result).shape());
    let shape = shape.filter(|shape| matches!(shape.len(), 4 | 5) && !shape.contains(&0));
    let (Some(dtype), Some(shape), Some(_)) = (dtype, shape, compiler.constant(1)) else {
        return Ok(None);
    };
    Ok(Some(Box::new(AffineGridKernel { cpu: compiler.cpu, op, dtype, shape })))
}

impl Kernel for AffineGridKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let rank = self.rank();
        let is_theta =
            shapes.first().is_some_and(|theta| **theta == [self.shape[0], rank, rank + 1]);
        // An f64 takes two f32 of scratch.
        let scratch_bytes = self.cpu.scratch_bytes(2 * self.row_len());
        Ok(Prepared::new(is_theta).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let is_theta: &bool = prepared.state()?;
        match (is_theta, self.dtype, self.rank()) {
            (true, DType::F32, 2) => self.compute::<f32, 2>(io),
            (true, DType::F32, _) => self.compute::<f32, 3>(io),
            (true, DType::F64, 2) => self.compute::<f64, 2>(io),
            (true, DType::F64, _) => self.compute::<f64, 3>(io),
            _ => Ok(self.op.eval(io.inputs, io.outputs)?),
        }
    }

    fn variant(&self) -> &'static str {
        "affine_grid"
    }
}

impl AffineGridKernel {
    /// The number of coordinates of a point.
    fn rank(&self) -> usize {
        self.shape.len() - 2
    }

    /// The number of values in a row of points.
    fn row_len(&self) -> usize {
        self.shape[self.rank()] * self.rank()
    }

    fn compute<T: Number, const RANK: usize>(
        &self,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let theta = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, &self.shape)?.into_slice::<T>()?;
        let len = self.row_len();
        let rows = Rows { len, cost: len.saturating_mul(8) };
        let scratch = (&mut *io.scratch, 2 * len);
        rows.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let along = &mut bytemuck::cast_slice_mut(scratch)[..len];
            let mut known = None;
            for (at, y) in (start / len..).zip(y.chunks_exact_mut(len)) {
                let image = at / self.shape[1..RANK].iter().product::<usize>();
                let factors = factors::<T, RANK>(theta, image);
                if known.replace(image) != Some(image) {
                    self.along(&factors, along);
                }
                self.row(at, &factors, (along, y));
            }
        });
        Ok(())
    }

    /// The terms of the last axis for each value of a row.
    fn along<const RANK: usize>(&self, factors: &[[f64; 4]; RANK], along: &mut [f64]) {
        let n = self.shape[RANK];
        for (i, point) in along.as_chunks_mut::<RANK>().0.iter_mut().enumerate() {
            let x = self.op.coordinate(i, n);
            *point = std::array::from_fn(|r| factors[r][0] * x);
        }
    }

    /// Computes row `at`, counted over all images.
    fn row<T: Number, const RANK: usize>(
        &self,
        at: usize,
        factors: &[[f64; 4]; RANK],
        (along, y): (&[f64], &mut [T]),
    ) {
        let height = self.shape[RANK - 1];
        let inner = self.op.coordinate(at % height, height);
        let depth = if RANK == 3 { self.shape[1] } else { 1 };
        let outer = self.op.coordinate(at / height % depth, depth);
        let second: [f64; RANK] = std::array::from_fn(|r| factors[r][1] * inner);
        let third: [f64; RANK] = std::array::from_fn(|r| factors[r][2] * outer);
        let last: [f64; RANK] = std::array::from_fn(|r| factors[r][RANK]);
        let points = y.as_chunks_mut::<RANK>().0.iter_mut().zip(along.as_chunks::<RANK>().0);
        for (y, x) in points {
            for r in 0..RANK {
                let sum = x[r] + second[r];
                let sum = if RANK == 3 { sum + third[r] } else { sum };
                y[r] = T::from_f64(sum + last[r]);
            }
        }
    }
}

/// The rows of an image's matrix.
fn factors<T: Number, const RANK: usize>(theta: &[T], image: usize) -> [[f64; 4]; RANK] {
    let matrix = &theta[image * RANK * (RANK + 1)..];
    std::array::from_fn(|r| {
        std::array::from_fn(|i| if i <= RANK { matrix[r * (RANK + 1) + i].to_f64() } else { 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor};

    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        let numbers = (0..n).map(|i| T::from_f64((i * 7919 % 251) as f64 / 97.0 - 1.0));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn results_equal_eval() {
        let settings: [(&[usize], &[i64]); 5] = [
            (&[1, 2, 3], &[1, 3, 5, 7]),
            (&[3, 2, 3], &[3, 1, 40, 61]),
            (&[2, 3, 4], &[2, 1, 3, 5, 6]),
            (&[1, 3, 4], &[1, 2, 9, 31, 40]),
            (&[1, 2, 3], &[1, 1, 1, 1]),
        ];
        for (theta, size) in settings {
            for x in [numbers::<f32>(theta), numbers::<f64>(theta)] {
                for aligned in [0, 1] {
                    let size = Tensor::from_slice(&[size.len()], size).unwrap();
                    let case = Case::new("AffineGrid", 20).input(x.clone()).constant(size);
                    case.attr("align_corners", Attr::Int(aligned)).check(exact);
                }
            }
        }
    }
}
