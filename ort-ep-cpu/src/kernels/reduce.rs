//! Reductions in f32, including the global pools: all except those with an exponential.
//!
//! Adjacent axes are one: as `[outer, n, inner]`, rows of `n` are reduced one by one if `inner` is 1; otherwise rows of
//! `inner` are combined, one after the other. If `n·inner` is large, it is split into pieces of a fixed
//! size, which threads share, and whose results are reduced again. Other axes are those of [`folds`].

// collects are bounded: by the rank

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_kernels::vec::{self, Fold};
use ort_ops::infer::normalize_axes;
use ort_ops::ops::global_pool::GlobalPool;
use ort_ops::ops::reduce::{Form, Reduce};
use ort_tensor::{DType, Shape, TensorViewMut, n_elements};

use super::{Compiled, Compiler, KernelDef, folds};
use crate::cpu::floats;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ReduceKernel {
    isa: Isa,
    combine: Combine,
    axes: Axes,
    keeps_dims: bool,
    /// The form, unless it is a pool.
    form: Option<Form>,
    /// Computes reductions of empty operands, and logarithms of sums over axes that are not adjacent.
    op: Arc<dyn Operator>,
}

#[derive(Clone, Copy, Debug)]
enum Combine {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    SumOfSquares,
    Norm,
    SumOfMagnitudes,
    LogSum,
}

/// The reduced axes.
#[derive(Debug)]
pub(super) enum Axes {
    All,
    /// Negative ones count from the back.
    These(Vec<i64>),
    /// All axes starting at this one.
    From(usize),
}

/// The cost of an element, in multiply-adds: reading a line of the second-level cache takes 1 ns.
const READ: usize = 6;
/// Elements per piece: independent of the number of threads, so that sums stay the same.
const PIECE: usize = 1 << 16;

/// `[outer, n, inner]`, split into pieces of rows of `n`.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    n: usize,
    inner: usize,
    piece: usize,
}

/// Prepared state for one shape signature.
#[derive(Debug)]
struct State {
    /// The shape of the result.
    shape: Shape,
    way: Way,
}

/// How a reduction is computed.
#[derive(Debug)]
enum Way {
    Adjacent(Lanes),
    /// Over axes that are not adjacent.
    Apart(Form, folds::State),
    Eval,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    if !compiler.are_f32(0..1) {
        return Ok(None);
    }
    let Some((combine, axes, keeps_dims)) = of_reduce(compiler).or_else(|| of_pool(compiler))
    else {
        return Ok(None);
    };
    let form = compiler.op::<Reduce>().map(|op| op.form);
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let (isa, op) = (compiler.cpu.isa, compiler.graph.node(id).op.clone());
    Ok(Some(Box::new(ReduceKernel { isa, combine, axes, keeps_dims, form, op })))
}

fn of_reduce(compiler: &Compiler<'_>) -> Option<(Combine, Axes, bool)> {
    let op = compiler.op::<Reduce>()?;
    let combine = match op.form {
        Form::Sum => Combine::Sum,
        Form::Mean => Combine::Mean,
        Form::Max => Combine::Max,
        Form::Min => Combine::Min,
        Form::Prod => Combine::Product,
        Form::SumSquare => Combine::SumOfSquares,
        Form::L1 => Combine::SumOfMagnitudes,
        Form::L2 => Combine::Norm,
        Form::LogSum => Combine::LogSum,
        Form::LogSumExp => return None,
    };
    Some((combine, Axes::of_reduce(compiler, op)?, op.keeps_dims))
}

fn of_pool(compiler: &Compiler<'_>) -> Option<(Combine, Axes, bool)> {
    let combine = match compiler.op::<GlobalPool>()? {
        GlobalPool::Average => Combine::Mean,
        GlobalPool::Max => Combine::Max,
        GlobalPool::Lp { .. } => return None,
    };
    // With fewer dimensions, `eval` reports the error.
    compiler.fact(0).and_then(Fact::rank).filter(|&rank| rank > 2)?;
    Some((combine, Axes::From(2), true))
}

impl Combine {
    /// The fold of elements, and the fold of the pieces' results.
    fn folds(self) -> [Fold; 2] {
        match self {
            Self::Sum | Self::Mean | Self::LogSum => [Fold::Sum; 2],
            Self::Max => [Fold::Max; 2],
            Self::Min => [Fold::Min; 2],
            Self::Product => [Fold::Product; 2],
            Self::SumOfSquares | Self::Norm => [Fold::SumOfSquares, Fold::Sum],
            Self::SumOfMagnitudes => [Fold::SumOfMagnitudes, Fold::Sum],
        }
    }

    /// Finishes folds of `n` elements.
    fn finish(self, isa: Isa, n: usize, y: &mut [f32]) {
        match self {
            Self::Mean => vec::div_scalar(isa, y, n as f32),
            Self::Norm => y.iter_mut().for_each(|y| *y = y.sqrt()),
            Self::LogSum => vec::ln(isa, y),
            Self::Sum
            | Self::Max
            | Self::Min
            | Self::Product
            | Self::SumOfSquares
            | Self::SumOfMagnitudes => {}
        }
    }
}

impl Lanes {
    fn new(n: usize, inner: usize) -> Self {
        let piece = (PIECE / inner.max(1)).max(1);
        Self { n, inner, piece: if n < 2 * piece { n } else { piece } }
    }

    fn n_pieces(self) -> usize {
        self.n.div_ceil(self.piece.max(1))
    }

    /// The fold of each column of each piece: `y` is `[outer, n_pieces, inner]`.
    fn fold(self, isa: Isa, fold: Fold, x: &[f32], (start, y): (usize, &mut [f32])) {
        let Self { n, inner, piece } = self;
        if inner == 1 && piece == n {
            return vec::fold_rows(isa, fold, &x[start * n..], n, y);
        }
        let (mut at, mut rest) = (start, y);
        while !rest.is_empty() {
            let (index, column) = (at / inner, at % inner);
            let (outer, first) = (index / self.n_pieces(), index % self.n_pieces() * piece);
            let x = &x[(outer * n + first) * inner..][..piece.min(n - first) * inner];
            let (columns, after) = rest.split_at_mut(rest.len().min(inner - column));
            match inner {
                1 => vec::fold_rows(isa, fold, x, x.len(), columns),
                _ => vec::fold_columns(isa, fold, &x[column..], inner, columns),
            }
            at += columns.len();
            rest = after;
        }
    }

    /// At least a cache line of columns.
    fn shares(self) -> Rows {
        let len = self.inner.min(64);
        Rows { len, cost: self.piece.saturating_mul(len * READ).max(8) }
    }
}

impl Axes {
    /// The axes of a node; `None` if they are not constant.
    pub(super) fn of_reduce(compiler: &Compiler<'_>, op: &Reduce) -> Option<Self> {
        let given = if op.has_axes_input { compiler.fact(1) } else { None };
        let axes = match given {
            None => op.axes.clone().unwrap_or_default(),
            Some(_) => compiler.constant(1)?.as_slice::<i64>().ok()?.to_vec(),
        };
        Some(match axes[..] {
            [] if !op.no_axes_is_none => Self::All,
            _ => Self::These(axes),
        })
    }

    /// For each dimension, whether it is reduced.
    pub(super) fn is_reduced(&self, rank: usize) -> Result<Vec<bool>, KernelError> {
        Ok(match self {
            // bounded: by the rank
            Self::All => vec![true; rank],
            Self::From(first) => (0..rank).map(|axis| axis >= *first).collect(),
            Self::These(axes) => {
                let axes = normalize_axes(axes, rank)?;
                (0..rank).map(|axis| axes.binary_search(&axis).is_ok()).collect()
            }
        })
    }
}

/// The shape of the result.
pub(super) fn reduced_shape(x: &[usize], is_reduced: &[bool], keeps_dims: bool) -> Shape {
    let axes = x.iter().zip(is_reduced);
    let kept = axes.filter(|&(_, is_reduced)| keeps_dims || !is_reduced);
    kept.map(|(&dim, is_reduced)| if *is_reduced { 1 } else { dim }).collect()
}

impl Kernel for ReduceKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        let is_reduced = self.axes.is_reduced(x.len())?;
        let axes = || x.iter().copied().zip(is_reduced.iter().copied());
        let shape = reduced_shape(x, &is_reduced, self.keeps_dims);
        // Dimensions of one element do not affect adjacency.
        let is_joined = |&(dim, is_reduced): &(usize, bool)| is_reduced && dim != 1;
        let first = axes().position(|axis| is_joined(&axis)).unwrap_or(x.len());
        let end = axes().rposition(|axis| is_joined(&axis)).map_or(x.len(), |last| last + 1);
        let is_one_block = axes().take(end).skip(first).all(|(dim, is)| is || dim == 1);
        let is_empty = x.contains(&0);
        let product = |dims| n_elements(dims).unwrap_or(0);
        let lanes = Lanes::new(product(&x[first..end]), product(&x[end..]));
        if is_one_block && !is_empty {
            let n_pieces = if lanes.n_pieces() > 1 { lanes.n_pieces() } else { 0 };
            let n_bytes = product(&x[..first]) * n_pieces * lanes.inner * size_of::<f32>();
            let state = State { shape, way: Way::Adjacent(lanes) };
            return Ok(Prepared::new(state).with_scratch(n_bytes));
        }
        let way = match self.form.filter(|form| *form != Form::LogSum) {
            Some(form) => {
                let state = folds::State::new(&self.axes, self.keeps_dims, x)?;
                if state.plan.is_some() { Way::Apart(form, state) } else { Way::Eval }
            }
            None => Way::Eval,
        };
        Ok(Prepared::new(State { shape, way }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, way }: &State = prepared.state()?;
        let lanes = match way {
            Way::Adjacent(lanes) => *lanes,
            Way::Apart(form, state) => return folds::run_f32(self.isa, *form, state, io),
            Way::Eval => return Ok(self.op.eval(io.inputs, io.outputs)?),
        };
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        let (isa, combine) = (self.isa, self.combine);
        let [fold, fold_again] = combine.folds();
        if lanes.n_pieces() == 1 {
            lanes.shares().for_each(io.threads, y, |start, y| {
                lanes.fold(isa, fold, x, (start, y));
                combine.finish(isa, lanes.n, y);
            });
            return Ok(());
        }
        let folds = floats(io.scratch);
        lanes.shares().for_each(io.threads, folds, |start, folds| {
            lanes.fold(isa, fold, x, (start, folds));
        });
        let of_folds = Lanes { n: lanes.n_pieces(), inner: lanes.inner, piece: lanes.n_pieces() };
        of_folds.shares().for_each(io.threads, y, |start, y| {
            of_folds.fold(isa, fold_again, folds, (start, y));
            combine.finish(isa, lanes.n, y);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "reduce_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, integers, relative, ulps};

    const SHAPES: [&[usize]; 5] =
        [&[3, 4, 5, 6], &[1, 7, 1, 130], &[2, 1, 70, 1], &[5, 200, 33, 2], &[2, 0, 3, 1]];

    /// Reductions whose results for many small integers are exact, except the last step.
    const NAMES: [&str; 7] = [
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceMean",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
    ];

    #[test]
    fn sums_of_small_integers_are_exact() {
        let axes: [&[i64]; 7] = [&[-1], &[1], &[0], &[2, 3], &[1, 2], &[0, 2], &[0, 1, 2, 3]];
        for shape in SHAPES {
            for axes in axes {
                for keepdims in [0, 1] {
                    let case = |name, version| {
                        Case::new(name, version)
                            .attr("keepdims", Attr::Int(keepdims))
                            .input(integers(shape))
                    };
                    let old = |name| case(name, 11).attr("axes", Attr::Ints(axes.to_vec()));
                    old("ReduceSum").check(exact);
                    for name in ["ReduceMax", "ReduceMin", "ReduceL1"] {
                        old(name).check(exact);
                    }
                    // One more rounding.
                    old("ReduceMean").check(ulps(1));
                    old("ReduceL2").check(ulps(1));
                    old("ReduceSumSquare").check(exact);
                }
            }
        }
    }

    #[test]
    fn products_and_logarithms_are_close() {
        for axes in [&[-1][..], &[1], &[2, 3], &[0]] {
            let case = |name| Case::new(name, 13).attr("axes", Attr::Ints(axes.to_vec()));
            case("ReduceProd").input(floats(&[3, 4, 5, 6])).check(relative(1e-5));
            let x: Vec<f32> = (1..=360).map(|i| (i % 17 + 1) as f32).collect();
            let x = Tensor::from_slice(&[3, 4, 5, 6], &x).unwrap();
            case("ReduceLogSum").input(x).check(ulps(4));
        }
    }

    #[test]
    fn results_of_pieces_are_reduced() {
        let cases: [(&[usize], &[i64]); 3] =
            [(&[300_000], &[0]), (&[2, 70_000, 3], &[1]), (&[3, 2, 131_073], &[1, 2])];
        for (shape, axes) in cases {
            for name in NAMES {
                let case = Case::new(name, 11).attr("axes", Attr::Ints(axes.to_vec()));
                case.input(integers(shape)).check(ulps(1));
            }
        }
    }

    #[test]
    fn no_axes_mean_all_or_none() {
        for noop in [0, 1] {
            let case =
                Case::new("ReduceSumSquare", 18).attr("noop_with_empty_axes", Attr::Int(noop));
            case.input(integers(&[3, 20])).check(exact);
        }
        Case::new("ReduceMean", 18).input(integers(&[])).check(exact);
    }

    #[test]
    fn planes_become_one_value_each() {
        for name in ["GlobalAveragePool", "GlobalMaxPool"] {
            for shape in [&[2, 3, 7, 7][..], &[1, 40, 100, 50], &[3, 1, 9], &[2, 3, 0, 4]] {
                Case::new(name, 22).input(integers(shape)).check(ulps(1));
            }
        }
        let x = [1.0, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, 2.0];
        let x = Tensor::from_slice(&[1, 3, 2], &x).unwrap();
        Case::new("GlobalMaxPool", 22).input(x.clone()).check(exact);
        Case::new("GlobalAveragePool", 22).input(x).check(exact);
    }
}
