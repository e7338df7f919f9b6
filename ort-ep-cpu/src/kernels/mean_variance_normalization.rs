//! MeanVarianceNormalization in f32: first the moments of each channel, in terms that are added in f64, then all elements.
//!
//! Channels are adjacent dimensions, such as axis 1 or axes 0 and 1; others, and planes of few elements, are left to `eval`.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_kernels::vec::{Fold, fold_row, standardize};
use ort_kernels::{Isa, Task};
use ort_ops::ops::mean_variance_normalization::{EPSILON, MeanVarianceNormalization};
use ort_tensor::{DType, Pace};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::floats;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 12;
/// Elements whose sum is one term of an f64 sum, as the rounding error grows with its length; and that are written at a time.
const TERM: usize = 1 << 12;
/// Planes with fewer elements do not fill registers.
const MIN_PLANE: usize = 16;
/// Numbers per channel.
const N_TERMS: usize = 3;

#[derive(Debug)]
struct MeanVarianceNormalizationKernel {
    isa: Isa,
    op: MeanVarianceNormalization,
}

/// Prepared state for one shape signature: the tensor as `[n, channels, plane]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    n: usize,
    channels: usize,
    plane: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_f32 = compiler.fact(0).and_then(Fact::dtype) == Some(DType::F32);
    let op = compiler.op::<MeanVarianceNormalization>().filter(|_| is_f32).cloned();
    let isa = compiler.cpu.isa;
    Ok(op.map(|op| Box::new(MeanVarianceNormalizationKernel { isa, op }) as Box<dyn Kernel>))
}

impl State {
    /// A tensor of this shape whose moments are those of the axes; `None` if channels are not adjacent, or planes are short.
    fn new(shape: &[usize], axes: &[usize]) -> Result<Option<Self>, OpError> {
        let mut state = Self { n: 1, channels: 1, plane: 1 };
        let (mut has_channels, mut has_plane) = (false, false);
        for (axis, &size) in shape.iter().enumerate().filter(|&(_, &size)| size != 1) {
            let is_joined = axes.contains(&axis);
            let part = match (is_joined, has_channels, has_plane) {
                (true, false, _) => &mut state.n,
                (true, true, _) => &mut state.plane,
                (false, _, false) => &mut state.channels,
                (false, _, true) => return Ok(None),
            };
            *part = part.checked_mul(size).ok_or(OpError::TooLarge)?;
            has_channels |= !is_joined;
            has_plane |= is_joined && has_channels;
        }
        if !has_channels {
            state = Self { n: 1, channels: 1, plane: state.n };
        }
        Ok((state.plane >= MIN_PLANE).then_some(state))
    }
}

/// The mean and the variance of a channel; of fewer elements once the run is cancelled.
///
/// GroupNormalization has an epsilon that hides the rounding of its mean, and reads faster.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    /// The mean of squared deviations from the mean.
    variance: f64,
}

impl Moments {
    /// Of all elements of these rows, which are read twice: for a number near the mean, and for the deviations from it, which
    /// sums in f32 represent well.
    #[expect(clippy::cast_possible_truncation, reason = "any number near the mean will do")]
    fn of<'x>(isa: Isa, rows: impl Iterator<Item = &'x [f32]> + Clone) -> Self {
        let terms = rows.flat_map(|row| row.chunks(TERM));
        let (mut pace, mut count, mut sum) = (Pace::new(), 0, 0.0);
        for x in terms.clone().take_while(|x| pace.go(x.len()).is_ok()) {
            count += x.len();
            sum += f64::from(fold_row(isa, Fold::Sum, x));
        }
        let count = count as f64;
        let near = (sum / count) as f32;
        let [mut sum, mut squares] = [0.0; 2];
        for x in terms.take_while(|x| pace.go(x.len()).is_ok()) {
            let term = isa.run(Deviations { x, from: near });
            (sum, squares) = (sum + f64::from(term[0]), squares + f64::from(term[1]));
        }
        let rest = sum / count;
        let variance = (squares / count - rest * rest).max(0.0);
        Self { mean: f64::from(near) + rest, variance }
    }
}

/// The sums of deviations from a number, and of their squares.
struct Deviations<'a> {
    x: &'a [f32],
    from: f32,
}

impl Task for Deviations<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn run<const FMA: bool>(self) -> [f32; 2] {
        const LANES: usize = 32;
        let Self { x, from } = self;
        let [mut sums, mut squares] = [[0.0_f32; LANES]; 2];
        let mut add = |i: usize, x: f32| {
            let d = x - from;
            sums[i] += d;
            squares[i] = if FMA { d.mul_add(d, squares[i]) } else { squares[i] + d * d };
        };
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks {
            for (i, x) in chunk.iter().enumerate() {
                add(i, *x);
            }
        }
        for (i, x) in rest.iter().enumerate() {
            add(i, *x);
        }
        [sums.into_iter().sum(), squares.into_iter().sum()]
    }
}

impl MeanVarianceNormalizationKernel {
    /// `[mean, factor, summand]`: an element becomes `(x − mean) · factor + summand`. The summand is the rest of the mean, which
    /// f32 rounds, so that elements that are all equal become 0.
    #[expect(clippy::cast_possible_truncation, reason = "results are f32")]
    fn terms(&self, Moments { mean, variance }: Moments) -> [f32; N_TERMS] {
        let factor = match self.op.normalizes_variance {
            true => 1.0 / (variance.sqrt() + EPSILON),
            false => 1.0,
        };
        let near = mean as f32;
        [near, factor as f32, ((f64::from(near) - mean) * factor) as f32]
    }
}

impl Kernel for MeanVarianceNormalizationKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let state = State::new(x, &self.op.axes(x.len())?)?;
        let n_channels = state.map_or(0, |state| state.channels);
        let scratch_bytes = n_channels.saturating_mul(N_TERMS * size_of::<f32>());
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let x = io.inputs.tensor(0)?;
        let Some(State { n, channels, plane }) = state.filter(|_| !x.is_empty()) else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        let y = io.outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        let x = x.as_slice::<f32>()?;
        let terms = &mut floats(io.scratch)[..channels * N_TERMS];
        let cost = n.saturating_mul(plane).saturating_mul(COST);
        Rows { len: N_TERMS, cost }.for_each(io.threads, terms, |start, terms| {
            for (c, terms) in (start / N_TERMS..).zip(terms.as_chunks_mut::<N_TERMS>().0) {
                let planes = (0..n).map(|i| &x[(i * channels + c) * plane..][..plane]);
                *terms = self.terms(Moments::of(self.isa, planes));
            }
        });
        let (terms, _) = terms.as_chunks::<N_TERMS>();
        let rows = Rows { len: plane, cost: plane.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            let mut pace = Pace::new();
            for (row, y) in (start / plane..).zip(y.chunks_exact_mut(plane)) {
                let [mean, factor, summand] = terms[row % channels];
                for (y, x) in y.chunks_mut(TERM).zip(x[row * plane..].chunks(TERM)) {
                    if pace.go(y.len()).is_err() {
                        return;
                    }
                    y.copy_from_slice(&x[..y.len()]);
                    standardize(self.isa, y, mean, factor, summand);
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "mean_variance_normalization_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::State;
    use crate::case::{Case, floats, within};

    #[test]
    fn every_choice_of_axes_equals_the_operator() {
        let shapes: [&[usize]; 5] =
            [&[2, 3, 40, 50], &[1, 6, 5, 77], &[3, 1, 9, 1], &[4, 2, 3, 3], &[2, 0, 5, 5]];
        for shape in shapes {
            for axes in [&[0, 2, 3][..], &[2, 3], &[-1], &[0], &[0, 1, 2, 3], &[1, 3], &[0, 3]] {
                Case::new("MeanVarianceNormalization", 13)
                    .attr("axes", Attr::Ints(axes.to_vec()))
                    .input(floats(shape))
                    .check(within(1e-5));
            }
        }
    }

    #[test]
    fn version_1_may_keep_the_variance() {
        for (normalizes, across) in [(0, 0), (0, 1), (1, 1)] {
            Case::new("MeanVarianceNormalization", 1)
                .attr("normalize_variance", Attr::Int(normalizes))
                .attr("across_channels", Attr::Int(across))
                .input(floats(&[2, 3, 20, 30]))
                .check(within(1e-5));
        }
    }

    #[test]
    fn elements_close_to_each_other_keep_their_differences() {
        for (x, step) in [(0.1_f32, 0), (1e6, 0), (1.0, 1), (-3.3, 5)] {
            let near =
                |i: usize| f32::from_bits(x.to_bits() + u32::from(i.is_multiple_of(3)) * step);
            let elements: Vec<f32> = (0..5000).map(near).collect();
            Case::new("MeanVarianceNormalization", 13)
                .attr("axes", Attr::Ints(vec![0, 2]))
                .input(Tensor::from_slice(&[1, 1, 5000], &elements).unwrap())
                .check(within(1e-4));
        }
    }

    #[test]
    fn channels_are_adjacent_dimensions() {
        let of = |shape: &[usize], axes: &[usize]| {
            State::new(shape, axes).unwrap().map(|state| [state.n, state.channels, state.plane])
        };
        assert_eq!(of(&[2, 3, 4, 5], &[0, 2, 3]), Some([2, 3, 20]));
        assert_eq!(of(&[2, 3, 4, 50], &[3]), Some([1, 24, 50]));
        assert_eq!(of(&[2, 3, 4, 5], &[0, 1, 2, 3]), Some([1, 1, 120]));
        assert_eq!(of(&[2, 3, 1, 50], &[0, 3]), Some([2, 3, 50]));
        assert_eq!(of(&[2, 3, 4, 50], &[0, 1, 2]), None);
        assert_eq!(of(&[20, 30, 40], &[1]), None);
    }
}
