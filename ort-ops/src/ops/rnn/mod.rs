//! RNN, GRU and LSTM: one layer of recurrent cells, in one direction or both.

mod activation;
mod cell;
mod dynamic_quantize;
mod run;
#[cfg(test)]
mod tests;
mod weights;

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

pub use self::activation::Activation;
pub use self::dynamic_quantize::DynamicQuantizeLstm;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("GRU", |spec| {
        let linear_before_reset =
            spec.since_version >= 3 && spec.flag("linear_before_reset", false)?;
        Rnn::build(spec, Cell::Gru { linear_before_reset })
    }),
    def("LSTM", |spec| {
        let input_forget = spec.flag("input_forget", false)?;
        Rnn::build(spec, Cell::Lstm { input_forget })
    }),
    def("RNN", |spec| Rnn::build(spec, Cell::Simple)),
    OpDef {
        domain: "com.microsoft",
        name: "DynamicQuantizeLSTM",
        versions: (1, 1),
        types: dynamic_quantize::is_source,
        build: DynamicQuantizeLstm::build,
    },
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "", name, versions: (1, 22), types: DType::is_float, build }
}

/// A layer of recurrent cells. With S steps, B sequences, I inputs, H units, D directions and G
/// gates: `x: [S, B, I]`, `w: [D, G·H, I]`, `r: [D, G·H, H]`, then, each optional, `b: [D, 2·G·H]`
/// (of w, then of r), `sequence_lens: [B]` int32, `initial_h` and (LSTM) `initial_c: [D, B, H]`, and
/// (LSTM) peepholes `p: [D, 3·H]`. Outputs `y: [S, D, B, H]`, the last `h` and (LSTM) the last `c`,
/// `[D, B, H]`. Floats; f16 and bf16 compute in f32.
///
/// Beyond the end of a sequence `y` is 0. As in ONNX Runtime, where the standard is silent, the last
/// states of a sequence of length 0 are 0, and `clip` does not reach `h(c)` of an LSTM.
///
/// Source: ONNX operator set, RNN-22, GRU-22, LSTM-22.
#[derive(Clone, Debug, PartialEq)]
pub struct Rnn {
    /// What a cell computes.
    pub cell: Cell,
    /// The order of the steps.
    pub direction: Direction,
    /// H, if present.
    pub hidden_size: Option<usize>,
    /// The largest magnitude of the input of a gate's activation.
    pub clip: Option<f32>,
    /// The activations of a cell, one direction after the other.
    pub activations: Vec<Activation>,
    /// Whether `B` comes before `S` and `D`: `x: [B, S, I]`, `y: [B, S, D, H]`, states `[B, D, H]`.
    pub is_batch_first: bool,
}

/// What a cell computes; `σ` and `τ` are its activations, by default Sigmoid and Tanh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h = τ(w·x + r·h)`.
    Simple,
    /// `z = σ(…), r = σ(…), h = (1 − z) ⊙ τ(w·x + r_h·(r ⊙ h)) + z ⊙ h`.
    Gru {
        /// `r ⊙ (r_h·h)` instead of `r_h·(r ⊙ h)`.
        linear_before_reset: bool,
    },
    /// `c = σ(…) ⊙ c + σ(…) ⊙ τ(…), h = σ(…) ⊙ τ(c)`.
    Lstm {
        /// The forget gate is 1 minus the input gate.
        input_forget: bool,
    },
}

/// The order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From first to last.
    Forward,
    /// From last to first, of each sequence.
    Reverse,
    /// Both, each with its own parameters.
    Bidirectional,
}

impl Cell {
    /// G.
    pub const fn n_gates(self) -> usize {
        match self {
            Self::Simple => 1,
            Self::Gru { .. } => 3,
            Self::Lstm { .. } => 4,
        }
    }

    /// The default names of the activations.
    const fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Simple => &["Tanh"],
            Self::Gru { .. } => &["Sigmoid", "Tanh"],
            Self::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

impl Direction {
    /// D.
    pub const fn count(self) -> usize {
        match self {
            Self::Forward | Self::Reverse => 1,
            Self::Bidirectional => 2,
        }
    }

    /// Whether direction `d` goes from last to first.
    const fn is_reverse(self, d: usize) -> bool {
        match self {
            Self::Forward => false,
            Self::Reverse => true,
            Self::Bidirectional => d == 1,
        }
    }
}

impl Rnn {
    fn build(spec: &NodeSpec<'_>, cell: Cell) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self::read(spec, cell)?))
    }

    fn read(spec: &NodeSpec<'_>, cell: Cell) -> Result<Self, OpError> {
        let wrong = |name, found: String| OpError::AttributeValue { name, found };
        let direction = match spec.string("direction")?.unwrap_or("forward") {
            "forward" => Direction::Forward,
            "reverse" => Direction::Reverse,
            "bidirectional" => Direction::Bidirectional,
            other => return Err(wrong("direction", other.to_owned())),
        };
        let hidden_size = spec.int("hidden_size")?;
        let hidden_size = hidden_size
            .map(|n| usize::try_from(n).map_err(|_| wrong("hidden_size", n.to_string())))
            .transpose()?;
        if spec.since_version < 7 {
            // `y` is computed if the output is present.
            spec.ignore("output_sequence");
        }
        let alphas = spec.floats("activation_alpha")?.unwrap_or_default();
        let betas = spec.floats("activation_beta")?.unwrap_or_default();
        let default = cell.activations();
        let n_activations = default.len() * direction.count();
        let activations = match spec.strings("activations")? {
            Some(names) => Activation::list(names.iter().map(String::as_str), alphas, betas)?,
            None => Activation::list(
                default.iter().copied().cycle().take(n_activations),
                alphas,
                betas,
            )?,
        };
        // More than needed are allowed: the default of the standard lists two for one direction.
        if activations.len() < n_activations {
            return Err(wrong("activations", format!("{} functions", activations.len())));
        }
        let is_batch_first = spec.since_version >= 14 && spec.flag("layout", false)?;
        let clip = spec.float("clip")?.filter(|&clip| clip > 0.0);
        Ok(Self { cell, direction, hidden_size, clip, activations, is_batch_first })
    }

    /// `[S or B, B or S, …]`, by the layout.
    fn ordered<T, const N: usize>(&self, mut dims: [T; N], first: usize, second: usize) -> [T; N] {
        if self.is_batch_first {
            dims.swap(first, second);
        }
        dims
    }
}

impl Operator for Rnn {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        [1, 2, 3, 5, 6, 7].iter().try_for_each(|&i| inputs.expect_dtype(i, dtype))?;
        inputs.expect_dtype(4, DType::I32)?;
        let x = match inputs.fact(0)?.dims() {
            Some([a, b, c]) => [a.clone(), b.clone(), c.clone()],
            Some(dims) => {
                let found = dims.len();
                return Err(OpError::InputRank { index: 0, expected: "3", found });
            }
            None => [Dim::Unknown, Dim::Unknown, Dim::Unknown],
        };
        let [steps, batch, input] = self.ordered(x, 0, 1);
        let hidden = match (self.hidden_size, inputs.fact(2)?.dims()) {
            (Some(hidden), _) => Dim::Known(hidden),
            (None, Some([_, _, hidden])) => hidden.clone(),
            _ => Dim::Unknown,
        };
        let d = Dim::Known(self.direction.count());
        let times = |n: usize| hidden.map(|hidden| hidden.checked_mul(n));
        let gates = self.cell.n_gates();
        let state = self.ordered([d.clone(), batch.clone(), hidden.clone()], 0, 1);
        expect_dims(inputs, 1, &[d.clone(), times(gates), input])?;
        expect_dims(inputs, 2, &[d.clone(), times(gates), hidden.clone()])?;
        expect_dims(inputs, 3, &[d.clone(), times(2 * gates)])?;
        expect_dims(inputs, 4, std::slice::from_ref(&batch))?;
        expect_dims(inputs, 5, &state)?;
        expect_dims(inputs, 6, &state)?;
        expect_dims(inputs, 7, &[d.clone(), times(3)])?;
        let y = match self.is_batch_first {
            true => [batch, steps, d, hidden],
            false => [steps, d, batch, hidden],
        };
        let state = Fact::tensor(dtype, state);
        Ok(vec![Fact::tensor(dtype, y), state.clone(), state])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        match inputs.tensor(0)?.dtype() {
            DType::F64 => run::run::<f64>(self, inputs, outputs),
            _ => run::run::<f32>(self, inputs, outputs),
        }
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let shape = |i| inputs.get(i).and_then(Fact::shape);
        let (Some(x), Some(w), Some(r)) = (shape(0), shape(1), shape(2)) else { return 0 };
        let n = |shape: &[usize]| shape.iter().fold(1_u64, |n, &dim| n.saturating_mul(dim as u64));
        let rows = n(x.get(..2).unwrap_or_default());
        rows.saturating_mul(n(&w).saturating_add(n(&r))).saturating_mul(2)
    }
}
