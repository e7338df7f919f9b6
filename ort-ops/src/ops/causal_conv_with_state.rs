//! CausalConvWithState: a causal convolution of each channel, for sequences in parts.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, Shape, filled, go_on, n_elements};

use super::linear_attention::state_window;
use crate::accumulate::zeros;
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

/// CausalConvWithState: `y[c, t] = f(b[c] + Σ w[c, j] · x[c, t − (k − 1 − j)·dilation])`, where the state precedes
/// `x`.
///
/// Inputs: `x: [B, C, L]`, or `[B, L, …]` with the channels last; `w: [C, 1, k]`; `b: [C]` or none;
/// the state `[B, C, P]` (or `[B, P, …]`), `P = (k − 1)·dilation`, or none, which is zeros. Outputs:
/// `y`, and the state after `x`: the last P steps. With a window, states have a first dimension of that length, as in
/// LinearAttention. [`Extension`] has the rest.
///
/// Source: ONNX operator set, CausalConvWithState-27, which has neither dilation, channels that come
/// last, a window nor an extension; com.microsoft, CausalConvWithState-1 (ONNX Runtime 1.32, whose CPU provider has
/// neither window, extension nor more than one spatial dimension; we lack the last as well, since the padding of the
/// others is undocumented).
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
    /// Options of inputs of rank 3 without a window of states.
    pub extension: Extension,
}

/// Other forms of input and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The first channel of `x`, whose channels come last, that is convolved, and how many are (0:
    /// all); the others are not in `y`.
    pub input_channels: (usize, usize),
    /// Whether the channels of states come last, if not as those of `x`.
    pub state_channels_last: Option<bool>,
    /// P, if more than `(k − 1)·dilation` is kept.
    pub state_length: Option<usize>,
    /// The length of a third output `[B, n, C]`: the first steps of `x`, then zeros.
    pub n_updates: usize,
}

/// The shapes of one convolution.
struct Shapes {
    y: Shape,
    state: Shape,
    /// The steps of a state, and how many of them precede the first tap of the first step.
    past: usize,
    reach: usize,
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
        let (state_window, extension) = (None, Extension::default());
        Ok(Arc::new(Self { dilation: 1, is_silu, channels_last: false, state_window, extension }))
    }

    fn build_microsoft(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.int("ndim")?.unwrap_or(1) != 1 {
            return Err(OpError::Unsupported { what: "more than one spatial dimension" });
        }
        let (name, dilation) = ("dilation", spec.int("dilation")?.unwrap_or(1));
        let wrong = || OpError::AttributeValue { name, found: dilation.to_string() };
        let op = Self {
            dilation: usize::try_from(dilation).ok().filter(|&n| n > 0).ok_or_else(wrong)?,
            is_silu: is_silu(spec)?,
            channels_last: spec.flag("channels_last", false)?,
            state_window: state_window(spec)?,
            extension: Extension::of_node(spec)?,
        };
        let Extension { input_channels, n_updates, .. } = op.extension;
        let needs_last = input_channels != (0, 0) || n_updates > 0;
        if op.is_extended() && op.state_window.is_some() || needs_last && !op.channels_last {
            return Err(OpError::Unsupported { what: "this state or part of the channels" });
        }
        Ok(Arc::new(op))
    }

    fn is_extended(&self) -> bool {
        self.extension != Extension::default()
    }

    fn shapes(&self, x: &[usize], w: &[usize]) -> Result<Shapes, OpError> {
        let wrong = || OpError::Shapes { what: "taps", left: x.to_vec(), right: w.to_vec() };
        let &[w_channels, 1, taps] = w else { return Err(wrong()) };
        let channels = match *x {
            [_, _, ref channels @ ..] if self.channels_last => n_elements(channels),
            [_, channels, _] if !self.channels_last => Some(channels),
            _ => None,
        };
        let reach = taps.checked_sub(1).ok_or_else(wrong)?.checked_mul(self.dilation);
        let reach = reach.ok_or(OpError::TooLarge)?;
        let Extension { input_channels: (first, n), state_length, .. } = self.extension;
        let past = state_length.unwrap_or(reach);
        let n = if n == 0 { channels } else { Some(n) };
        let end = n.and_then(|n| first.checked_add(n));
        let is_part = channels.zip(end).is_some_and(|(all, end)| end <= all);
        if n != Some(w_channels) || !is_part || past < reach || self.is_extended() && x.len() != 3 {
            return Err(wrong());
        }
        let (mut y, mut state) = (Shape::from_slice(x), Shape::from_slice(x));
        if self.is_extended() {
            y[if self.channels_last { 2 } else { 1 }] = w_channels;
            state[1..].copy_from_slice(&[w_channels, past]);
            state[1..].rotate_left(usize::from(self.state_channels_last()));
        } else {
            state[if self.channels_last { 1 } else { 2 }] = past;
        }
        Ok(Shapes { y, state: self.state_window.into_iter().chain(state).collect(), past, reach })
    }

    fn state_channels_last(&self) -> bool {
        self.extension.state_channels_last.unwrap_or(self.channels_last)
    }
}

impl Extension {
    fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let count = |name, most: usize| {
            let n = spec.int(name)?.unwrap_or(0);
            let wrong = || OpError::AttributeValue { name, found: n.to_string() };
            usize::try_from(n).ok().filter(|&n| n <= most).ok_or_else(wrong)
        };
        let name = "state_channels_last";
        let order = spec.int(name)?.unwrap_or(-1);
        if !(-1..=1).contains(&order) {
            return Err(OpError::AttributeValue { name, found: order.to_string() });
        }
        let any = usize::MAX;
        Ok(Self {
            input_channels: (count("input_channel_offset", any)?, count("input_channels", any)?),
            state_channels_last: (order >= 0).then_some(order == 1),
            state_length: Some(count("state_length", any)?).filter(|&n| n > 0),
            n_updates: count("state_update_capacity", 8)?,
        })
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
        let shapes = match (x.shape(), w.shape()) {
            (Some(x), Some(w)) => Some(self.shapes(&x, &w)?),
            _ => None,
        };
        let fact = |shape: Option<&Shape>, more: usize| match shape {
            Some(shape) => Fact::shaped(dtype, shape),
            None => ranked_fact(dtype, x.rank().map(|rank| rank + more)),
        };
        let window = usize::from(self.state_window.is_some());
        let state = fact(shapes.as_ref().map(|shapes| &shapes.state), window);
        if let Some(past) = inputs.get(3) {
            state
                .unify(past)
                .map_err(|_| OpError::InputType { index: 3, found: Box::new(past.ty.clone()) })?;
        }
        if !self.is_extended() {
            return Ok(vec![x.ty.clone().into(), state]);
        }
        let updates = match (x.shape(), w.shape()) {
            (Some(x), Some(w)) => Some(Shape::from_slice(&[x[0], self.extension.n_updates, w[0]])),
            _ => None,
        };
        let y = fact(shapes.as_ref().map(|shapes| &shapes.y), 0);
        Ok(vec![y, state, fact(updates.as_ref(), 0)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let Shapes { y: y_shape, state: state_shape, past: past_len, reach } =
            self.shapes(x.shape(), w.shape())?;
        let (batch, channels, taps) = (x.shape()[0], w.shape()[0], w.shape()[2]);
        let (len, width) = match x.shape() {
            [_, len, width @ ..] if self.channels_last => (*len, width.iter().product()),
            shape => (shape[2], shape[1]),
        };
        let window = self.state_window.unwrap_or(1);
        let n = n_elements(&state_shape).ok_or(OpError::TooLarge)?;
        let of_one = n / window;
        let past = match inputs.get(3) {
            Some(_) => floats::read_parameter(inputs, 3, n)?.split_off(n - of_one),
            None => filled(0.0, of_one)?,
        };
        let bias = match inputs.get(2) {
            Some(_) => floats::read_parameter(inputs, 2, channels)?,
            None => filled(0.0, channels)?,
        };
        let sequences = |channels, len, channels_last| Sequences { channels, len, channels_last };
        let [source, now] = [width, channels].map(|n| sequences(n, len, self.channels_last));
        let before = sequences(channels, past_len, self.state_channels_last());
        let Extension { input_channels: (first, _), n_updates, .. } = self.extension;
        let update = sequences(channels, n_updates, true);
        let (values, weights) = (floats::read(x)?, floats::read(w)?);
        let (mut y, mut states) = (filled(0.0, batch * channels * len)?, zeros(n)?);
        let n_updated = batch.saturating_mul(n_updates).saturating_mul(channels);
        let (mut updates, mut seen) = (zeros(n_updated)?, Room::new());
        for (b, c) in (0..batch).flat_map(|b| (0..channels).map(move |c| (b, c))) {
            go_on()?;
            let given = (0..len).map(|t| values[source.at(b, first + c, t)]);
            seen.clear();
            seen.extend((0..past_len).map(|t| past[before.at(b, c, t)]).chain(given))?;
            for t in 0..len {
                let taps = weights[c * taps..][..taps].iter();
                let seen = seen[past_len - reach + t..].iter().step_by(self.dilation);
                let sum = bias[c] + taps.zip(seen).map(|(w, x)| w * x).sum::<f64>();
                y[now.at(b, c, t)] = if self.is_silu { sum * sigmoid(sum) } else { sum };
            }
            for (t, &x) in seen[past_len..].iter().enumerate().take(n_updates) {
                updates[update.at(b, c, t)] = x;
            }
            for slot in 0..window {
                // The last state is the one after all steps; one before the first step is zeros.
                let Some(end) = (len + slot + 1).checked_sub(window) else { continue };
                if end == 0 && slot + 1 < window {
                    continue;
                }
                for (t, &x) in seen[end..end + past_len].iter().enumerate() {
                    states[slot * of_one + before.at(b, c, t)] = x;
                }
            }
        }
        floats::write(outputs, 0, x.dtype(), &y_shape, &y)?;
        floats::write(outputs, 1, x.dtype(), &state_shape, &states)?;
        if self.is_extended() {
            floats::write(outputs, 2, x.dtype(), &[batch, n_updates, channels], &updates)?;
        }
        Ok(())
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

    #[test]
    fn a_part_of_the_channels_has_states_of_another_form() {
        let int = |name: &str, n| (name.to_owned(), Attr::Int(n));
        let case = |attrs: &[(String, Attr)]| {
            let last = case().outputs(3).attr("channels_last", Attr::Int(1));
            attrs.iter().fold(last, |case, (name, attr)| case.attr(name, attr.clone()))
        };
        // Three steps of four channels, of which the second and third are convolved.
        let data = [9_f32, 1.0, 10.0, 9.0, 9.0, 2.0, 20.0, 9.0, 9.0, 3.0, 30.0, 9.0];
        let x = Some(tensor(&[1, 3, 4], &data));
        let w = Some(tensor(&[2, 1, 2], &[100_f32, 1.0, 10.0, 1.0]));
        let past = Some(tensor(&[1, 2, 3], &[7_f32, 6.0, 5.0, 4.0, 3.0, 2.0]));
        let part = [int("input_channel_offset", 1), int("input_channels", 2)];
        let state = [int("state_channels_last", 0), int("state_length", 3)];
        let all = [&part[..], &state, &[int("state_update_capacity", 2)]].concat();
        let inputs = [x.clone(), w.clone(), None, past];
        let found = case(&all).run_optional(&inputs).unwrap();
        let expected = [
            tensor(&[1, 3, 2], &[501_f32, 30.0, 102.0, 120.0, 203.0, 230.0]),
            tensor(&[1, 2, 3], &[1_f32, 2.0, 3.0, 10.0, 20.0, 30.0]),
            tensor(&[1, 2, 2], &[1_f32, 10.0, 2.0, 20.0]),
        ];
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.as_tensor(), Ok(expected));
        }
        let capacity = |n| case(&part).attr("state_update_capacity", Attr::Int(n));
        assert!(capacity(9).run_optional(&inputs[..2]).is_err());
        let found = capacity(5).run_optional(&inputs[..2]).unwrap();
        let expected = tensor(&[1, 5, 2], &[1_f32, 10., 2., 20., 3., 30., 0., 0., 0., 0.]);
        assert_eq!(found[2].as_tensor(), Ok(&expected), "states before the first step are zeros");
        assert!(case(&part[..1]).run_optional(&inputs[..2]).is_err(), "beyond the last channel");
        assert!(case(&part).attr("state_window", Attr::Int(1)).run_optional(&inputs[..2]).is_err());
        assert!(
            case(&part).attr("channels_last", Attr::Int(0)).run_optional(&inputs[..2]).is_err()
        );
        let short = case(&[int("state_length", 1)]);
        assert!(short.run_optional(&[x, Some(tensor(&[4, 1, 3], &[1_f32; 12]))]).is_err());
    }
}
