//! Col2Im: adds up the blocks that a convolution would read: `y[n, c, p·stride + k·dilation − pad] += x[n, (c, k),
//! p]`.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, Complex, DType, Element, Inputs, Number, Output, Pace, Shape, TensorView, filled,
    n_elements, with_dtype,
};

use crate::accumulate::{Accumulate, Sum};
use crate::elementwise::unsupported;
use crate::infer::{PADDING, Window, WindowAttrs, read_axes, sizes};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Col2Im",
    versions: (18, 18),
    types: is_addend,
    build: Col2Im::build,
}];

/// Col2Im: `x`: `[N, C·Π block, L]`, numbers, complex or bool; `image_shape` and `block_shape`: int64,
/// one element per spatial axis; `y`: `[N, C, image…]`. `L` is the number of blocks in the padded
/// image; elements in the padding are dropped. Integers wrap; a sum of booleans is their disjunction.
///
/// Source: ONNX operator set, Col2Im-18, which also allows strings, which have no sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Col2Im {
    /// The placement of the blocks.
    pub window: WindowAttrs,
}

impl Col2Im {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let window = WindowAttrs {
            strides: read_axes(spec, "strides", 1)?,
            dilations: read_axes(spec, "dilations", 1)?,
            pads: read_axes(spec, "pads", 0)?,
            ..WindowAttrs::default()
        };
        Ok(Arc::new(Self { window }))
    }

    fn compute<T: Addend>(
        &self,
        x: TensorView<'_>,
        window: &Window,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let &[n, rows, columns] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "3", found: x.shape().len() });
        };
        let (n_taps, n_windows) = (window.n_taps(), window.n_outputs());
        if n_taps == 0 || !rows.is_multiple_of(n_taps) || columns != n_windows {
            let (left, right) = (x.shape().to_vec(), vec![n_taps, n_windows]);
            return Err(OpError::Shapes { what: "columns and blocks", left, right });
        }
        let shape: Shape =
            [n, rows / n_taps].into_iter().chain(window.input.iter().copied()).collect();
        let n_plane = n_elements(&window.input).ok_or(OpError::TooLarge)?;
        let x = x.as_slice::<T>()?;
        let y = output.tensor(T::DTYPE, &shape)?.into_slice::<T>()?;
        let mut sums = filled(T::Sum::default(), y.len())?;
        if sums.is_empty() || x.is_empty() {
            y.fill(T::default());
            return Ok(());
        }
        let mut pace = Pace::new();
        for run in window.runs() {
            let offsets = window.offsets(run.clone())?;
            let blocks = x.chunks_exact(n_taps * n_windows);
            for (plane, block) in sums.chunks_exact_mut(n_plane).zip(blocks) {
                let taps = block.chunks_exact(n_windows).zip(offsets.chunks_exact(run.len()));
                for (terms, offsets) in taps {
                    pace.go(run.len())?;
                    let seen = offsets.iter().zip(&terms[run.clone()]);
                    for (&at, term) in seen.filter(|(at, _)| **at != PADDING) {
                        plane[at] = term.add_to(plane[at]);
                    }
                }
            }
        }
        y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::round(sum));
        Ok(())
    }
}

/// An element that can be added up.
trait Addend: Element {
    /// The type of sums.
    type Sum: Copy + Default;

    /// `sum + self`.
    fn add_to(self, sum: Self::Sum) -> Self::Sum;

    /// The sum as an element.
    fn round(sum: Self::Sum) -> Self;
}

impl<T: Accumulate> Addend for T {
    type Sum = <T as Accumulate>::Sum;

    fn add_to(self, sum: Self::Sum) -> Self::Sum {
        sum.plus(self.widen())
    }

    fn round(sum: Self::Sum) -> Self {
        T::narrow(sum)
    }
}

impl Addend for Bool {
    type Sum = bool;

    fn add_to(self, sum: bool) -> bool {
        sum || self.get()
    }

    fn round(sum: bool) -> Self {
        sum.into()
    }
}

impl<T: Number> Addend for Complex<T>
where
    Complex<T>: Element,
{
    type Sum = [f64; 2];

    fn add_to(self, [re, im]: [f64; 2]) -> [f64; 2] {
        [re + self.re().to_f64(), im + self.im().to_f64()]
    }

    fn round([re, im]: [f64; 2]) -> Self {
        Complex::new(T::from_f64(re), T::from_f64(im))
    }
}

const fn is_addend(dtype: DType) -> bool {
    dtype.is_number() || matches!(dtype, DType::Bool | DType::Complex64 | DType::Complex128)
}

impl Operator for Col2Im {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_addend)?;
        for index in 1..3 {
            inputs.fact(index)?;
            inputs.expect_dtype(index, DType::I64)?;
        }
        let (n, rows) = match inputs.fact(0)?.dims() {
            None => (Dim::Unknown, Dim::Unknown),
            Some([n, rows, _]) => (n.clone(), rows.clone()),
            Some(dims) => {
                return Err(OpError::InputRank { index: 0, expected: "3", found: dims.len() });
            }
        };
        let Some(image) = inputs.fact(1)?.ints() else { return Ok(vec![Fact::unranked(dtype)]) };
        let block = inputs.fact(2)?.ints().map(|block| sizes(2, &block)).transpose()?;
        let n_taps = block.as_deref().and_then(n_elements);
        let channels = rows.map(|rows| rows.checked_div(n_taps?));
        let image = sizes(1, &image)?.into_iter().map(Dim::Known);
        Ok(vec![Fact::tensor(dtype, [n, channels].into_iter().chain(image))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let image = sizes(1, inputs.tensor(1)?.as_slice()?)?;
        let block = sizes(2, inputs.tensor(2)?.as_slice()?)?;
        let window = self.window.window(&image, &block)?;
        let output = &mut outputs[0];
        with_dtype!(x.dtype(), number, T => self.compute::<T>(x, &window, output),
            else => with_dtype!(x.dtype(), [Bool, Complex<f32>, Complex<f64>],
                T => self.compute::<T>(x, &window, output),
                else => Err(unsupported(0, x.dtype()))))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, Complex};

    use crate::case::{Case, tensor};

    #[test]
    fn overlapping_blocks_add_up_and_padding_drops_out() {
        let shapes = [tensor(&[1], &[3_i64]), tensor(&[1], &[2_i64])];
        let x = tensor(&[1, 2, 2], &[1_i8, 2, 3, 4]);
        let y = Case::new("Col2Im", 18).tensor(&[&[x], &shapes[..]].concat());
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[1_i8, 5, 4])));
        let x = [0, 1, 0, 0].map(|x| Bool::from(x == 1));
        let y = Case::new("Col2Im", 18).tensor(&[&[tensor(&[1, 2, 2], &x)], &shapes[..]].concat());
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[0, 1, 0].map(|y| Bool::from(y == 1)))));
        let x = [1.0, 2.0, 3.0, 4.0].map(|x| Complex::new(x, -x));
        let y = Case::new("Col2Im", 18).tensor(&[&[tensor(&[1, 2, 2], &x)], &shapes[..]].concat());
        let expected = [1.0, 5.0, 4.0].map(|y| Complex::new(y, -y));
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &expected)));
        let padded = Case::new("Col2Im", 18).attr("pads", Attr::Ints(vec![1, 0]));
        let x = tensor(&[1, 2, 3], &[9_f32, 1.0, 2.0, 0.5, 3.0, 4.0]);
        let y = padded.tensor(&[&[x], &shapes[..]].concat());
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[1.5_f32, 5.0, 4.0])));
    }

    #[test]
    fn a_wrong_number_of_blocks_is_refused() {
        let x = tensor(&[1, 2, 3], &[0_f32; 6]);
        let shapes = [tensor(&[1], &[3_i64]), tensor(&[1], &[2_i64])];
        assert!(Case::new("Col2Im", 18).tensor(&[&[x], &shapes[..]].concat()).is_err());
    }
}
