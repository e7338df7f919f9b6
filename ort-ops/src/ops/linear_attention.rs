//! LinearAttention: attention as a recurrence, whose state is one matrix per head.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, Shape, TensorError, filled, go_on, n_elements};

use crate::floats;
use crate::infer::{expect_dims, ranked_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "LinearAttention",
        versions: (27, 27),
        types: DType::is_float,
        build: LinearAttention::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "LinearAttention",
        versions: (1, 1),
        types: DType::is_float,
        build: LinearAttention::build_microsoft,
    },
];

/// LinearAttention: for each step and head, `s ← exp(decay) · s`, then `s ← s + k ⊗ v`, or, with the
/// delta rule, `s ← s + beta · k ⊗ (v − sᵀ·k)`, and `y = scale · sᵀ·q`.
///
/// Inputs: `q: [B, T, Hq·D]`, `k: [B, T, Hkv·D]`, `v: [B, T, Hkv·E]`, the state `[B, Hkv, D, E]` or
/// none, which is zeros; the decay `[B, T, Hkv·D]` or `[B, T, Hkv]`; `beta: [B, T, Hkv]` or
/// `[B, T, 1]`. Outputs: `y: [B, T, max(Hq, Hkv)·E]`, and the state after the last step. With a window, states have a
/// first dimension of that length: the states after the last steps, or zeros before the first step.
///
/// Source: ONNX operator set, LinearAttention-27, in which Hkv divides Hq and there is no window;
/// com.microsoft, LinearAttention-1 (ONNX Runtime 1.31, whose CPU provider has no window).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAttention {
    /// Hq.
    pub q_num_heads: usize,
    /// Hkv.
    pub kv_num_heads: usize,
    /// The factor of `y`; `1/√D` if it is 0.
    pub scale: f32,
    /// Whether the state decays.
    pub is_gated: bool,
    /// Whether only the difference to the state's prediction is added.
    pub is_delta: bool,
    /// How many states there are, if they have a dimension for it.
    pub state_window: Option<usize>,
}

/// `[B, T]`, heads and sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    len: usize,
    size: usize,
    v_size: usize,
}

/// The operands of a step of a head.
struct Step<'a> {
    k: &'a [f64],
    v: &'a [f64],
    /// One for all features, or one each.
    decay: &'a [f64],
    beta: f64,
}

impl LinearAttention {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let op = Self::read(spec)?;
        if op.q_num_heads % op.kv_num_heads != 0 {
            let found = op.kv_num_heads.to_string();
            return Err(OpError::AttributeValue { name: "kv_num_heads", found });
        }
        Ok(Arc::new(op))
    }

    fn build_microsoft(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let state_window = state_window(spec)?;
        Ok(Arc::new(Self { state_window, ..Self::read(spec)? }))
    }

    /// The attributes of both domains: all except the window.
    fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let wrong = |name, found: i64| OpError::AttributeValue { name, found: found.to_string() };
        let count = |name| {
            let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
            usize::try_from(n).ok().filter(|&n| n > 0).ok_or(wrong(name, n))
        };
        let (q_num_heads, kv_num_heads) = (count("q_num_heads")?, count("kv_num_heads")?);
        let (least, most) = (q_num_heads.min(kv_num_heads), q_num_heads.max(kv_num_heads));
        if most % least != 0 {
            return Err(OpError::AttributeValue { name: "kv_num_heads", found: least.to_string() });
        }
        let name = "update_rule";
        let (is_gated, is_delta) = match spec.string(name)?.unwrap_or("gated_delta") {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => return Err(OpError::AttributeValue { name, found: other.into() }),
        };
        // The chunking of a long sequence does not change the result.
        spec.ignore("chunk_size");
        let scale = spec.float("scale")?.unwrap_or(0.0);
        let state_window = None;
        Ok(Self { q_num_heads, kv_num_heads, scale, is_gated, is_delta, state_window })
    }

    /// How many heads `y` has.
    fn n_heads(&self) -> usize {
        self.q_num_heads.max(self.kv_num_heads)
    }

    fn sizes(&self, inputs: Inputs<'_>) -> Result<Sizes, OpError> {
        let shapes = [inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?].map(|x| x.shape());
        let [&[batch, len, q], &[kb, kt, k], &[vb, vt, v]] = shapes else {
            let [q, k, _] = shapes.map(<[usize]>::to_vec);
            return Err(OpError::Shapes { what: "queries, keys and values", left: q, right: k });
        };
        let (size, v_size) = (k / self.kv_num_heads, v / self.kv_num_heads);
        let widths = [(q, self.q_num_heads, size), (k, self.kv_num_heads, size)];
        let is_whole =
            widths.iter().all(|&(width, heads, size)| heads.checked_mul(size) == Some(width))
                && v_size * self.kv_num_heads == v;
        if is_whole && [kb, vb, kt, vt] == [batch, batch, len, len] {
            return Ok(Sizes { batch, len, size, v_size });
        }
        let (left, right) = (shapes[0].to_vec(), shapes[1].to_vec());
        Err(OpError::Shapes { what: "queries, keys and values", left, right })
    }

    fn state_shape(&self, sizes: Sizes) -> Shape {
        let own = [sizes.batch, self.kv_num_heads, sizes.size, sizes.v_size];
        self.state_window.into_iter().chain(own).collect()
    }

    /// The factors at `index` for each step, one or several per head, and how many per step.
    fn factors(
        inputs: Inputs<'_>,
        index: usize,
        sizes: Sizes,
        allowed: [usize; 2],
    ) -> Result<(Vec<f64>, usize), OpError> {
        let view = inputs.tensor(index)?;
        match *view.shape() {
            [b, t, n] if [b, t] == [sizes.batch, sizes.len] && allowed.contains(&n) => {
                Ok((floats::read(view)?, n))
            }
            _ => {
                let (left, right) =
                    (view.shape().to_vec(), vec![sizes.batch, sizes.len, allowed[0]]);
                Err(OpError::Shapes { what: "the factors of each step", left, right })
            }
        }
    }

    /// `state: [D, E]` after a step.
    fn update(&self, state: &mut [f64], step: &Step<'_>) -> Result<(), TensorError> {
        go_on()?;
        let size = step.v.len().max(1);
        for (i, row) in state.chunks_exact_mut(size).enumerate() {
            if let Some(decay) = step.decay.get(i).or(step.decay.first()) {
                row.iter_mut().for_each(|s| *s *= decay.exp());
            }
        }
        let mut new = Room::of(step.v.iter().copied())?;
        if self.is_delta {
            for (k, row) in step.k.iter().zip(state.chunks_exact(size)) {
                new.iter_mut().zip(row).for_each(|(new, s)| *new -= k * s);
            }
        }
        for (k, row) in step.k.iter().zip(state.chunks_exact_mut(size)) {
            row.iter_mut().zip(&new).for_each(|(s, new)| *s += step.beta * k * new);
        }
        Ok(())
    }
}

/// How many states there are, if they have a dimension for it.
pub(super) fn state_window(spec: &NodeSpec<'_>) -> Result<Option<usize>, OpError> {
    let name = "state_window";
    let n = spec.int(name)?.unwrap_or(0);
    let wrong = || OpError::AttributeValue { name, found: n.to_string() };
    let window = usize::try_from(n).ok().filter(|&n| n <= 8).ok_or_else(wrong)?;
    Ok((window > 0).then_some(window))
}

impl Operator for LinearAttention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        [1, 2, 4, 5].iter().try_for_each(|&i| inputs.expect_dtype(i, dtype))?;
        let state_dtype = inputs.get(3).map(|_| inputs.dtype(3, DType::is_float)).transpose()?;
        let state_dtype = state_dtype.unwrap_or(dtype);
        (0..3).try_for_each(|i| expect_dims(inputs, i, &[const { Dim::Unknown }; 3]))?;
        let rank = 4 + usize::from(self.state_window.is_some());
        let dims = [inputs.fact(0)?, inputs.fact(1)?, inputs.fact(2)?].map(Fact::dims);
        let [Some([batch, len, _]), Some([_, _, k]), Some([_, _, v])] = dims else {
            return Ok(vec![ranked_fact(dtype, Some(3)), ranked_fact(state_dtype, Some(rank))]);
        };
        let per_head = |width: &Dim| width.map(|n| Some(n / self.kv_num_heads));
        let (size, v_size) = (per_head(k), per_head(v));
        let width = v_size.map(|size| size.checked_mul(self.n_heads()));
        let own = [batch.clone(), Dim::Known(self.kv_num_heads), size, v_size];
        let state: Vec<_> = self.state_window.map(Dim::Known).into_iter().chain(own).collect();
        expect_dims(inputs, 3, &state)?;
        let y = Fact::tensor(dtype, [batch.clone(), len.clone(), width]);
        Ok(vec![y, Fact::tensor(state_dtype, state)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let sizes = self.sizes(inputs)?;
        let Sizes { batch, len, size, v_size } = sizes;
        let (q_heads, kv_heads, heads) = (self.q_num_heads, self.kv_num_heads, self.n_heads());
        let read = |i| inputs.tensor(i).map_err(OpError::from).and_then(floats::read);
        let (q, k, v) = (read(0)?, read(1)?, read(2)?);
        let (decay, n_decay) = match self.is_gated {
            true => Self::factors(inputs, 4, sizes, [kv_heads, kv_heads * size])?,
            false => (Vec::new(), 0),
        };
        let (beta, n_beta) = match self.is_delta {
            true => Self::factors(inputs, 5, sizes, [kv_heads, 1])?,
            false => (Vec::new(), 0),
        };
        let shape = self.state_shape(sizes);
        let n = n_elements(&shape).ok_or(OpError::TooLarge)?;
        let window = self.state_window.unwrap_or(1);
        let mut states = filled(0.0, n)?;
        let mut state = match inputs.get(3) {
            Some(_) => floats::read_parameter(inputs, 3, n)?.split_off(n - n / window),
            None => filled(0.0, n / window)?,
        };
        let y_shape = [batch, len, heads.checked_mul(v_size).ok_or(OpError::TooLarge)?];
        let mut y = filled(0.0, n_elements(&y_shape).ok_or(OpError::TooLarge)?)?;
        let scale = Some(f64::from(self.scale)).filter(|&scale| scale != 0.0);
        let scale = scale.unwrap_or(1.0 / (size as f64).sqrt());
        for t in 0..len {
            for (i, own) in state.chunks_exact_mut((size * v_size).max(1)).enumerate() {
                let (row, head) = (i / kv_heads * len + t, i % kv_heads);
                let at = row * kv_heads + head;
                let per_head = n_decay / kv_heads;
                let beta = beta.get(row * n_beta + if n_beta == 1 { 0 } else { head });
                let step = Step {
                    k: &k[at * size..][..size],
                    v: &v[at * v_size..][..v_size],
                    decay: &decay[at * per_head..][..per_head],
                    beta: beta.copied().unwrap_or(1.0),
                };
                self.update(own, &step)?;
                let n_shared = heads / kv_heads;
                for head in head * n_shared..(head + 1) * n_shared {
                    let q_head = head / (heads / q_heads);
                    let q = &q[(row * q_heads + q_head) * size..][..size];
                    let y = &mut y[(row * heads + head) * v_size..][..v_size];
                    for (q, own) in q.iter().zip(own.chunks_exact(v_size)) {
                        y.iter_mut().zip(own).for_each(|(y, s)| *y += scale * q * s);
                    }
                }
            }
            if let Some(slot) = (window + t).checked_sub(len) {
                states[slot * state.len()..][..state.len()].copy_from_slice(&state);
            }
        }
        if len == 0 {
            states[n - state.len()..].copy_from_slice(&state);
        }
        floats::write(outputs, 0, inputs.tensor(0)?.dtype(), &y_shape, &y)?;
        let dtype = inputs.optional_tensor(3)?.map_or(inputs.tensor(0)?.dtype(), |s| s.dtype());
        floats::write(outputs, 1, dtype, &shape, &states)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn case(rule: &str) -> Case {
        of(Case::new("LinearAttention", 1).domain("com.microsoft"), rule)
    }

    fn of(case: Case, rule: &str) -> Case {
        let case = case.outputs(2);
        let case = case.attr("q_num_heads", Attr::Int(1)).attr("kv_num_heads", Attr::Int(1));
        case.attr("scale", Attr::Float(1.0)).attr("update_rule", Attr::String(rule.into()))
    }

    fn steps(values: &[f32]) -> Tensor {
        tensor(&[1, values.len(), 1], values)
    }

    /// Results and state of two steps with keys 1 and 2, values 3 and 5 and queries 1 and 1.
    fn run(case: &Case, rest: &[Option<Tensor>]) -> Result<[Vec<f32>; 2], String> {
        let own = [[1_f32, 1.0], [1.0, 2.0], [3.0, 5.0]].map(|x| Some(steps(&x)));
        let values = case.run_optional(&[&own[..], rest].concat())?;
        let values: Vec<Vec<f32>> =
            values.iter().map(|x| x.as_tensor().unwrap().as_slice().unwrap().to_vec()).collect();
        Ok([values[0].clone(), values[1].clone()])
    }

    #[test]
    fn each_rule_updates_the_state_in_its_way() {
        let half = Some(steps(&[0.5_f32.ln(); 2]));
        let past = Some(tensor(&[1, 1, 1, 1], &[4_f32]));
        let beta = Some(steps(&[1.0, 0.5]));
        let close = |found: [Vec<f32>; 2], y: [f32; 2]| {
            assert!(found[0].iter().zip(y).all(|(a, b)| (a - b).abs() <= 4.0 * f32::EPSILON * b));
            assert_eq!(found[1], found[0][1..]);
        };
        close(run(&case("linear"), &[]).unwrap(), [3.0, 13.0]);
        close(run(&case("gated"), &[past, half.clone()]).unwrap(), [5.0, 12.5]);
        close(run(&case("delta"), &[None, None, beta.clone()]).unwrap(), [3.0, 2.0]);
        close(run(&case("gated_delta"), &[None, half, beta]).unwrap(), [3.0, 3.5]);
        assert!(run(&case("gated"), &[]).is_err() && run(&case("other"), &[]).is_err());
    }

    #[test]
    fn in_onnx_several_queries_share_a_state_and_none_is_spread() {
        let case = |q, kv| {
            let case = of(Case::new("LinearAttention", 27), "linear");
            case.attr("q_num_heads", Attr::Int(q)).attr("kv_num_heads", Attr::Int(kv))
        };
        let read = |values: &[Value], i: usize| -> Vec<f32> {
            values[i].as_tensor().unwrap().as_slice().unwrap().to_vec()
        };
        let q = tensor(&[1, 1, 4], &[1_f32, 2.0, 3.0, 4.0]);
        let [k, v] = [[10_f32, 1.0], [5.0, 7.0]].map(|x| tensor(&[1, 1, 2], &x));
        let values = case(4, 2).run(&[q.clone(), k.clone(), v.clone()]).unwrap();
        assert_eq!(read(&values, 0), [50.0, 100.0, 21.0, 28.0]);
        assert_eq!(read(&values, 1), [50.0, 7.0]);
        // One head of two features: rows of the state are those of the key.
        let values = case(2, 1).run(&[q.clone(), k.clone(), v.clone()]).unwrap();
        assert_eq!(read(&values, 0), [60.0, 84.0, 170.0, 238.0]);
        assert_eq!(read(&values, 1), [50.0, 70.0, 5.0, 7.0]);
        assert!(case(1, 2).run(&[k.clone(), q.clone(), q.clone()]).is_err());
        assert!(case(4, 2).attr("state_window", Attr::Int(1)).run(&[q, k, v]).is_err());
    }

    #[test]
    fn a_window_holds_the_last_states() {
        let case = |n| case("linear").attr("state_window", Attr::Int(n));
        assert_eq!(run(&case(2), &[]).unwrap()[1], [3.0, 13.0]);
        let past = Some(tensor(&[3, 1, 1, 1, 1], &[7_f32, 8.0, 1.0]));
        assert_eq!(run(&case(3), &[past]).unwrap()[1], [0.0, 4.0, 14.0]);
        assert!(run(&case(9), &[]).is_err());
    }
}
