//! CausalConvWithState: a convolution of each channel with what came before, part by part.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, n_elements};

use super::linear_attention::state_window;
use crate::floats;
use crate::infer::ranked_fact;
use crate::ops::unary::sigmoid;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "CausalConvWithState",
        versions: (27, 27),
        types: DType::is_float,
        build: CausalConv::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "CausalConvWithState",
        versions: (1, 1),
        types: DType::is_float,
        build: CausalConv::build_microsoft,
    },
];

/// CausalConvWithState: `y[c, t] = f(b[c] + Σ w[c, j] · x[c, t − (k − 1 − j)·dilation])`, where the
/// state stands before `x`.
///
/// Inputs: `x: [B, C, L]`, or `[B, L, …]` with the channels last; `w: [C, 1, k]`; `b: [C]` or none;
/// the state `[B, C, P]` (or `[B, P, …]`), `P = (k − 1)·dilation`, or none, which is zeros. Outputs:
/// `y`, and the state after `x`: the last P of what was seen. With a window states have a first
/// dimension of that length, as those of LinearAttention have.
///
/// Source: ONNX operator set, CausalConvWithState-27, which has neither dilation, channels that come
/// last nor a window; com.microsoft, CausalConvWithState-1 (ONNX Runtime 1.31, whose CPU provider has neither
/// window nor more than one spatial dimension; nor do we have the latter, of which its documentation
/// does not say how the others are padded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CausalConv {
    /// The distance of taps.
    pub dilation: usize,
    /// Whether the result is multiplied with its sigmoid.
    pub is_silu: bool,
    /// Whether the channels come last.
    pub channels_last: bool,
    /// How many states there are, if they have a dimension for it.
    pub state_window: Option<usize>,
}

/// Sequences `[batch, channels, len]` in either order.
#[derive(Clone, Copy, Debug)]
struct Sequences {
    channels: usize,
    len: usize,
    channels_last: bool,
}

impl Sequences {
    const fn at(&self, batch: usize, channel: usize, step: usize) -> usize {
        if self.channels_last {
            (batch * self.len + step) * self.channels + channel
        } else {
            (batch * self.channels + channel) * self.len + step
        }
    }
}

impl CausalConv {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let is_silu = is_silu(spec)?;
        Ok(Arc::new(Self { dilation: 1, is_silu, channels_last: false, state_window: None }))
    }

    fn build_microsoft(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.int("ndim")?.unwrap_or(1) != 1 {
            return Err(OpError::Unsupported { what: "more than one spatial dimension" });
        }
        let (name, dilation) = ("dilation", spec.int("dilation")?.unwrap_or(1));
        let wrong = || OpError::AttributeValue { name, found: dilation.to_string() };
        Ok(Arc::new(Self {
            dilation: usize::try_from(dilation).ok().filter(|&n| n > 0).ok_or_else(wrong)?,
            is_silu: is_silu(spec)?,
            channels_last: spec.flag("channels_last", false)?,
            state_window: state_window(spec)?,
        }))
    }

    /// The shape of the state of `x` and `w`, and its length.
    fn state(&self, x: &[usize], w: &[usize]) -> Result<(Shape, usize), OpError> {
        let wrong = || OpError::Shapes { what: "taps", left: x.to_vec(), right: w.to_vec() };
        let &[w_channels, 1, taps] = w else { return Err(wrong()) };
        let channels = match *x {
            [_, _, ref channels @ ..] if self.channels_last => n_elements(channels),
            [_, channels, _] if !self.channels_last => Some(channels),
            _ => None,
        };
        let past = taps.checked_sub(1).ok_or_else(wrong)?.checked_mul(self.dilation);
        let past = past.ok_or(OpError::TooLarge)?;
        if channels != Some(w_channels) {
            return Err(wrong());
        }
        let mut own = Shape::from_slice(x);
        own[if self.channels_last { 1 } else { 2 }] = past;
        Ok((self.state_window.into_iter().chain(own).collect(), past))
    }
}

fn is_silu(spec: &NodeSpec<'_>) -> Result<bool, OpError> {
    let name = "activation";
    match spec.string(name)?.unwrap_or("none") {
        "silu" | "swish" => Ok(true),
        "none" => Ok(false),
        other => Err(OpError::AttributeValue { name, found: other.into() }),
    }
}

impl Operator for CausalConv {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        (1..4).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        let (x, w) = (inputs.fact(0)?, inputs.fact(1)?);
        let state = match (x.shape(), w.shape()) {
            (Some(x), Some(w)) => Fact::shaped(dtype, &self.state(&x, &w)?.0),
            _ => {
                let window = usize::from(self.state_window.is_some());
                ranked_fact(dtype, x.rank().map(|rank| rank + window))
            }
        };
        if let Some(past) = inputs.get(3) {
            state
                .unify(past)
                .map_err(|_| OpError::InputType { index: 3, found: Box::new(past.ty.clone()) })?;
        }
        Ok(vec![x.ty.clone().into(), state])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (state_shape, past_len) = self.state(x.shape(), w.shape())?;
        let (batch, channels, taps) = (x.shape()[0], w.shape()[0], w.shape()[2]);
        let len = x.shape()[if self.channels_last { 1 } else { 2 }];
        let (n, window) = (n_elements(&state_shape).ok_or(OpError::TooLarge)?, self.state_window);
        let window = window.unwrap_or(1);
        let of_one = n / window;
        let past = match inputs.get(3) {
            Some(_) => floats::read_parameter(inputs, 3, n)?.split_off(n - of_one),
            None => vec![0.0; of_one],
        };
        let bias = match inputs.get(2) {
            Some(_) => floats::read_parameter(inputs, 2, channels)?,
            None => vec![0.0; channels],
        };
        let sequences = |len| Sequences { channels, len, channels_last: self.channels_last };
        let (now, before) = (sequences(len), sequences(past_len));
        let (values, weights) = (floats::read(x)?, floats::read(w)?);
        let (mut y, mut states) = (vec![0.0; values.len()], vec![0.0; n]);
        for (b, c) in (0..batch).flat_map(|b| (0..channels).map(move |c| (b, c))) {
            let seen: Vec<_> = (0..past_len)
                .map(|t| past[before.at(b, c, t)])
                .chain((0..len).map(|t| values[now.at(b, c, t)]))
                .collect();
            for t in 0..len {
                let taps = weights[c * taps..][..taps].iter();
                let seen = seen[t..].iter().step_by(self.dilation);
                let sum = bias[c] + taps.zip(seen).map(|(w, x)| w * x).sum::<f64>();
                y[now.at(b, c, t)] = if self.is_silu { sum * sigmoid(sum) } else { sum };
            }
            for slot in 0..window {
                // The last state is that after everything; one without a step is zeros.
                let Some(end) = (len + slot + 1).checked_sub(window) else { continue };
                if end == 0 && slot + 1 < window {
                    continue;
                }
                for (t, &x) in seen[end..end + past_len].iter().enumerate() {
                    states[slot * of_one + before.at(b, c, t)] = x;
                }
            }
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)?;
        floats::write(outputs, 1, x.dtype(), &state_shape, &states)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn case() -> Case {
        Case::new("CausalConvWithState", 1).domain("com.microsoft").outputs(2)
    }

    fn run(case: &Case, inputs: &[Option<Tensor>]) -> Result<[Vec<f32>; 2], String> {
        let values = case.run_optional(inputs)?;
        let read = |i: usize| values[i].as_tensor().unwrap().as_slice().unwrap().to_vec();
        Ok([read(0), read(1)])
    }

    #[test]
    fn taps_reach_into_the_state() {
        let x = |shape: &[usize]| Some(tensor(shape, &[1_f32, 2.0, 3.0]));
        let w = Some(tensor(&[1, 1, 2], &[10_f32, 1.0]));
        let b = Some(tensor(&[1], &[100_f32]));
        let past = Some(tensor(&[1, 1, 1], &[5_f32]));
        let found = run(&case(), &[x(&[1, 1, 3]), w.clone(), b, past.clone()]).unwrap();
        assert_eq!(found, [vec![151.0, 112.0, 123.0], vec![3.0]]);
        let last = case().attr("channels_last", Attr::Int(1));
        let found = run(&last, &[x(&[1, 3, 1, 1]), w.clone()]).unwrap();
        assert_eq!(found, [vec![1.0, 12.0, 23.0], vec![3.0]]);
        let wide = case().attr("dilation", Attr::Int(2));
        let found = run(&wide, &[x(&[1, 1, 3]), w.clone()]).unwrap();
        assert_eq!(found, [vec![1.0, 2.0, 13.0], vec![2.0, 3.0]]);
        assert!(run(&wide, &[x(&[1, 1, 3]), w, None, past]).is_err());
    }

    #[test]
    fn in_onnx_it_is_the_plain_form_alone() {
        let case = || Case::new("CausalConvWithState", 27).outputs(2);
        let x = |shape: &[usize]| Some(tensor(shape, &[1_f32, 2.0, 3.0, 4.0]));
        let w = Some(tensor(&[2, 1, 3], &[100_f32, 10.0, 1.0, 1.0, 1.0, 1.0]));
        let past = Some(tensor(&[1, 2, 2], &[7_f32, 8.0, 9.0, 1.0]));
        let found = run(&case(), &[x(&[1, 2, 2]), w.clone(), None, past]).unwrap();
        assert_eq!(found, [vec![781.0, 812.0, 13.0, 8.0], vec![1.0, 2.0, 3.0, 4.0]]);
        let silu = case().attr("activation", Attr::String("swish".into()));
        let zero = Some(tensor(&[2], &[-1_f32, -3.0]));
        let found = run(&silu, &[x(&[2, 2, 1]), w.clone(), zero]).unwrap();
        let minus_one = -1.0 / (1.0 + 1_f32.exp());
        let near = |(y, x): (&f32, f32)| (y - x).abs() <= 4.0 * f32::EPSILON * x.abs();
        let two = 2.0 / (1.0 + (-2_f32).exp());
        assert!(found[0].iter().zip([0.0, minus_one, two, 1.0 / (1.0 + (-1_f32).exp())]).all(near));
        assert_eq!(found[1], [0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0]);
        assert!(run(&case(), &[x(&[1, 2, 2, 1]), w.clone()]).is_err());
        for name in ["channels_last", "dilation", "ndim", "state_window"] {
            let case = case().attr(name, Attr::Int(1));
            assert!(run(&case, &[x(&[1, 2, 2]), w.clone()]).is_err(), "{name}");
        }
    }

    #[test]
    fn a_window_holds_the_last_states() {
        let case = |n| case().attr("state_window", Attr::Int(n));
        let x = Some(tensor(&[1, 1, 2], &[1_f32, 2.0]));
        let w = Some(tensor(&[1, 1, 3], &[0_f32, 0.0, 1.0]));
        let found = run(&case(3), &[x.clone(), w.clone()]).unwrap();
        assert_eq!(found[1], [0.0, 0.0, 0.0, 1.0, 1.0, 2.0]);
        let past = Some(tensor(&[2, 1, 1, 2], &[9_f32, 9.0, 7.0, 8.0]));
        let found = run(&case(2), &[x, w, None, past]).unwrap();
        assert_eq!(found, [vec![1.0, 2.0], vec![8.0, 1.0, 1.0, 2.0]]);
    }
}
