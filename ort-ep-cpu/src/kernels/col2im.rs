//! Col2Im of numbers, of blocks of one to three dimensions: plane by plane, adding each tap's row of blocks to a row of the
//! image.

// collects are bounded: by the rank and the lengths of constants

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::conv_f32::Axis;
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::col2im::Col2Im;
use ort_tensor::{DType, Pace, Shape, with_dtype};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct Col2ImKernel {
    op: Col2Im,
    dtype: DType,
    image: Shape,
    axes: [Axis; 3],
}

/// The shape of the result; `None` if the operand's shape does not fit the blocks, or is empty.
#[derive(Debug)]
struct State(Option<Shape>);

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Col2Im>().cloned() else { return Ok(None) };
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    // Sums of 16-bit types are accumulated in a wider one.
    let Some(dtype) =
        dtype.filter(|dtype| dtype.is_integer() || matches!(dtype, DType::F32 | DType::F64))
    else {
        return Ok(None);
    };
    let sizes = |input| -> Option<Shape> {
        let ints = compiler.constant(input)?.as_slice::<i64>().ok()?;
        ints.iter().map(|&n| usize::try_from(n).ok()).collect()
    };
    let (Some(image), Some(block)) = (sizes(1), sizes(2)) else { return Ok(None) };
    let window = op.window.window(&image, &block).ok();
    let axes = window.and_then(|window| axes(&window));
    let kernel = |axes| Box::new(Col2ImKernel { op, dtype, image, axes }) as Box<dyn Kernel>;
    Ok(axes.map(kernel))
}

impl Kernel for Col2ImKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let n_taps: usize = self.axes.iter().map(|axis| axis.kernel).product();
        let n_blocks: usize = self.axes.iter().map(|axis| axis.output).product();
        let shape = match *shapes {
            [&[n, rows, columns], ..]
                if n_taps > 0 && rows % n_taps == 0 && columns == n_blocks =>
            {
                let shape: Shape =
                    [n, rows / n_taps].into_iter().chain(self.image.iter().copied()).collect();
                Some(shape).filter(|shape| !shape.contains(&0) && columns > 0)
            }
            _ => None,
        };
        Ok(Prepared::new(State(shape)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State(shape) = prepared.state()?;
        let Some(shape) = shape else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        with_dtype!(self.dtype, [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64],
            T => self.compute::<T>(shape, io),
            else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        "col2im"
    }
}

impl Col2ImKernel {
    fn compute<T: Arithmetic>(
        &self,
        shape: &[usize],
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let plane: usize = self.axes.iter().map(|axis| axis.input).product();
        let n_taps: usize = self.axes.iter().map(|axis| axis.kernel).product();
        let n_blocks: usize = self.axes.iter().map(|axis| axis.output).product();
        let n_terms = n_taps * n_blocks;
        let rows = Rows { len: plane, cost: n_terms.saturating_add(plane).saturating_mul(8) };
        rows.for_each(io.threads, y, |start, y| {
            let mut pace = Pace::new();
            for (i, y) in (start / plane..).zip(y.chunks_exact_mut(plane)) {
                y.fill(T::default());
                for (tap, x) in x[i * n_terms..][..n_terms].chunks_exact(n_blocks).enumerate() {
                    if pace.go(n_blocks).is_err() {
                        return;
                    }
                    self.add_tap(tap, x, y);
                }
            }
        });
        Ok(())
    }

    /// Adds the elements of all blocks at one tap.
    fn add_tap<T: Arithmetic>(&self, tap: usize, x: &[T], y: &mut [T]) {
        let [a, b, c] = &self.axes;
        let taps = [tap / c.kernel / b.kernel, tap / c.kernel % b.kernel, tap % c.kernel];
        let (first, n) = inside(c, taps[2]);
        let Some(to) = c.at(first, taps[2]).filter(|_| n > 0) else { return };
        for (at, x) in x.chunks_exact(c.output).enumerate() {
            let (Some(i), Some(j)) = (a.at(at / b.output, taps[0]), b.at(at % b.output, taps[1]))
            else {
                continue;
            };
            let terms = &x[first..first + n];
            let sums = &mut y[(i * b.input + j) * c.input..][..c.input][to..];
            if c.stride == 1 {
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum = sum.add(*term));
            } else {
                let sums = sums.iter_mut().step_by(c.stride);
                sums.zip(terms).for_each(|(sum, term)| *sum = sum.add(*term));
            }
        }
    }
}

/// The first of the outputs that read an input with `tap`, and their number.
fn inside(axis: &Axis, tap: usize) -> (usize, usize) {
    let reach = tap * axis.dilation;
    let first = axis.pad[0].saturating_sub(reach).div_ceil(axis.stride);
    let end = (axis.pad[0] + axis.input).saturating_sub(reach).div_ceil(axis.stride);
    (first, end.min(axis.output).saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor};

    use crate::case::{Case, exact, within};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        let numbers = (0..n).map(|i| T::from_f64((i * 7919 % 251) as f64 / 2.0));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    type Setting =
        (&'static [i64], &'static [i64], [usize; 3], &'static [(&'static str, &'static [i64])]);

    const SETTINGS: [Setting; 6] = [
        (&[5, 5], &[3, 3], [2, 27, 9], &[]),
        (&[5, 5], &[3, 3], [1, 9, 25], &[("pads", &[1, 1, 1, 1])]),
        (&[7, 9], &[3, 2], [1, 12, 16], &[("strides", &[2, 2]), ("pads", &[1, 0, 1, 0])]),
        (&[30, 41], &[2, 3], [3, 12, 1107], &[("dilations", &[3, 1]), ("pads", &[0, 1, 0, 1])]),
        (&[6], &[5], [2, 10, 4], &[("strides", &[2]), ("pads", &[3, 2])]),
        (&[3, 4, 5], &[2, 2, 2], [1, 16, 24], &[]),
    ];

    #[test]
    fn results_equal_eval() {
        for (image, block, shape, attrs) in SETTINGS {
            for x in [numbers::<f32>(&shape), numbers::<f64>(&shape), numbers::<i8>(&shape)] {
                let of = |ints: &[i64]| Tensor::from_slice(&[ints.len()], ints).unwrap();
                let case = Case::new("Col2Im", 18).input(x.clone());
                let case = case.constant(of(image)).constant(of(block));
                let case = attrs.iter().fold(case, |case, (name, values)| {
                    case.attr(name, Attr::Ints(values.to_vec()))
                });
                // Sums of f16 are exact here.
                if x.dtype().is_integer() { case.check(exact) } else { case.check(within(0.0)) }
            }
        }
    }
}
