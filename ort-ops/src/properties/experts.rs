//! Mixtures of experts, computed for one token, expert and number at a time.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] =
    &[Property::microsoft("MoE", moe), Property::microsoft("QMoE", qmoe)];

/// The form of the function between the layers, and the source of its linear part.
#[derive(Clone, Copy, PartialEq)]
enum Middle {
    Plain(&'static str),
    /// Relu times a separate layer.
    Third,
    /// SwiGLU of adjacent pairs, or of halves.
    Interleaved,
    Halves,
    /// SwiGLU of pairs whose gate is limited after its activation.
    LimitedAfter,
    /// GELU times the other half.
    Geglu,
}

/// The sizes of a mixture.
#[derive(Clone, Copy)]
struct Sizes {
    n_tokens: usize,
    n_experts: usize,
    k: usize,
    hidden: usize,
    inner: usize,
}

/// A layer of all experts: weights `[experts, rows, columns]`, and an optional bias per row.
struct Layer {
    weights: Array,
    bias: Option<Array>,
}

impl Layer {
    fn apply(&self, expert: usize, x: &[f64]) -> Vec<f64> {
        let row = |row: usize| {
            let term = |(i, x): (usize, &f64)| x * self.weights.at(&[expert, row, i]).float();
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias.at(&[expert, row]).float());
            x.iter().enumerate().map(term).sum::<f64>() + bias
        };
        (0..self.weights.shape[1]).map(row).collect()
    }
}

const ALPHA: f64 = 1.5;
const BETA: f64 = 0.5;
const LIMIT: f64 = 3.0;

impl Middle {
    fn draw(draw: &mut Draw) -> Self {
        let plain = ["relu", "relu2", "gelu", "silu", "identity"].map(Middle::Plain);
        let gates = [Middle::Interleaved, Middle::Halves, Middle::LimitedAfter, Middle::Geglu];
        draw.pick(&[&plain[..], &[Middle::Third], &gates].concat())
    }

    /// The rows of the first layer for each number between the layers.
    fn n_parts(self) -> usize {
        if matches!(self, Middle::Plain(_) | Middle::Third) { 1 } else { 2 }
    }

    fn attrs(self, sample: Sample) -> Sample {
        let name = match self {
            Middle::Plain(name) => name,
            Middle::Third => "relu",
            Middle::Geglu => "geglu",
            Middle::Interleaved | Middle::Halves | Middle::LimitedAfter => "swiglu",
        };
        let sample = sample.attr("activation_type", Attr::String(name.to_owned()));
        let fusion = match self {
            Middle::Plain(_) | Middle::Third => return sample,
            Middle::Interleaved | Middle::LimitedAfter => 1,
            Middle::Halves | Middle::Geglu => 2,
        };
        let is_limit_after = self == Middle::LimitedAfter;
        sample
            .maybe("swiglu_limit_after_activation", is_limit_after.then_some(Attr::Int(1)))
            .attr("swiglu_fusion", Attr::Int(fusion))
            .attr("activation_alpha", Attr::Float(1.5))
            .attr("activation_beta", Attr::Float(0.5))
            .attr("swiglu_limit", Attr::Float(3.0))
    }

    fn apply(self, first: &[f64], third: &[f64]) -> Vec<f64> {
        let silu = |x: f64| x / (1.0 + (-ALPHA * x).exp());
        let linear = |x: f64| x.clamp(-LIMIT, LIMIT) + BETA;
        let swiglu = |gate: f64, x: f64| silu(gate.min(LIMIT)) * linear(x);
        let half = first.len() / 2;
        match self {
            Middle::Plain(name) => first.iter().map(|&x| plain(name, x)).collect(),
            Middle::Third => first.iter().zip(third).map(|(x, y)| x.max(0.0) * y).collect(),
            Middle::Interleaved => {
                (0..half).map(|i| swiglu(first[2 * i], first[2 * i + 1])).collect()
            }
            Middle::Halves => (0..half).map(|i| swiglu(first[i], first[i + half])).collect(),
            Middle::LimitedAfter => {
                let of = |i: usize| silu(first[2 * i]).min(LIMIT) * linear(first[2 * i + 1]);
                (0..half).map(of).collect()
            }
            Middle::Geglu => (0..half).map(|i| plain("gelu", first[i]) * first[i + half]).collect(),
        }
    }
}

fn plain(name: &str, x: f64) -> f64 {
    let cubic = x + 0.044_715 * x.powi(3);
    match name {
        "relu" => x.max(0.0),
        "relu2" => x.max(0.0) * x.max(0.0),
        "gelu" => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * cubic).tanh()),
        "silu" => x / (1.0 + (-x).exp()),
        _ => x,
    }
}

/// `Σ weight · second(middle(first(x)))` over the experts with the largest logits of each token.
fn mixed(
    (x, logits): (&Array, &Array),
    Sizes { n_tokens, n_experts, k, hidden, .. }: Sizes,
    (middle, is_normalized): (Middle, bool),
    layers: &[Layer],
) -> Array {
    let mut cells = Vec::new();
    for token in 0..n_tokens {
        let x: Vec<_> = x.cells[token * hidden..][..hidden].iter().map(Cell::float).collect();
        let powers: Vec<_> = logits.cells[token * n_experts..][..n_experts]
            .iter()
            .map(|c| c.float().exp())
            .collect();
        let mut experts: Vec<_> = (0..n_experts).collect();
        experts.sort_by(|&a, &b| powers[b].total_cmp(&powers[a]));
        experts.truncate(k);
        let whole: f64 = match is_normalized {
            true => experts.iter().map(|&expert| powers[expert]).sum(),
            false => powers.iter().sum(),
        };
        let mut y = vec![0.0; hidden];
        for expert in experts {
            let third = layers.get(2).map(|layer| layer.apply(expert, &x)).unwrap_or_default();
            let between = middle.apply(&layers[0].apply(expert, &x), &third);
            let result = layers[1].apply(expert, &between);
            y.iter_mut().zip(result).for_each(|(y, z)| *y += powers[expert] / whole * z);
        }
        cells.extend(y.into_iter().map(Cell::Float));
    }
    Array { shape: x.shape.clone(), cells }
}

/// Tokens, and logits that are all different.
fn tokens(draw: &mut Draw, dtype: DType, sizes: Sizes) -> [Tensor; 2] {
    let Sizes { n_tokens, n_experts, hidden, .. } = sizes;
    let shape = if draw.one_in(2) { vec![n_tokens, hidden] } else { vec![1, n_tokens, hidden] };
    let x = draw.small(dtype, &shape);
    let order: Vec<_> = (0..n_tokens).map(|_| draw.permutation(n_experts)).collect();
    let logits = match dtype.is_float() {
        true => Array::from_fn(&[n_tokens, n_experts], |at| {
            Cell::Float(0.5 * f64::from(u8::try_from(order[at[0]][at[1]]).unwrap()))
        })
        .to_tensor(dtype),
        false => draw.any(dtype, &[n_tokens, n_experts]),
    };
    [x, logits]
}

fn sizes(draw: &mut Draw, hidden: usize, inner: usize) -> Sizes {
    let n_experts = draw.some_dim();
    let k = 1 + draw.below(n_experts);
    Sizes { n_tokens: draw.dim(), n_experts, k, hidden, inner }
}

/// Rows and columns of the layers that there are.
fn shapes(middle: Middle, Sizes { hidden, inner, .. }: Sizes) -> Vec<[usize; 2]> {
    let all = [[inner * middle.n_parts(), hidden], [hidden, inner], [inner, hidden]];
    all[..if middle == Middle::Third { 3 } else { 2 }].to_vec()
}

fn moe(draw: &mut Draw, dtype: DType) -> Sample {
    let (hidden, inner) = (draw.some_dim(), draw.some_dim());
    let (sizes, middle, is_normalized) =
        (sizes(draw, hidden, inner), Middle::draw(draw), draw.one_in(2));
    let [x, logits] = tokens(draw, dtype, sizes);
    let tensors: Vec<_> = shapes(middle, sizes)
        .into_iter()
        .map(|[rows, columns]| {
            let weights = draw.small(dtype, &[sizes.n_experts, rows, columns]);
            let bias = draw.small(dtype, &[sizes.n_experts, rows]);
            (weights, draw.one_in(2).then_some(bias))
        })
        .collect();
    let given = tensors.clone();
    let mut sample = Sample::new(&[&x.clone(), &logits.clone()], move || {
        let layer = |(weights, bias): &(Tensor, Option<Tensor>)| Layer {
            weights: Array::of(weights),
            bias: bias.as_ref().map(Array::of),
        };
        let layers: Vec<_> = given.iter().map(layer).collect();
        let operands = (&Array::of(&x), &Array::of(&logits));
        let y = mixed(operands, sizes, (middle, is_normalized), &layers);
        vec![Expected::close(dtype, y, 1e-9)]
    });
    for (i, (weights, bias)) in tensors.into_iter().enumerate() {
        sample = sample.input(2 + 2 * i, weights);
        if bias.is_some() {
            sample = sample.input(3 + 2 * i, bias);
        }
    }
    middle
        .attrs(sample)
        .attr("k", Attr::Int(signed(sizes.k)))
        .attr("normalize_routing_weights", Attr::Int(is_normalized.into()))
}

/// Quantized values of a layer with their scales and zero points, and the dequantized weights.
fn quantized(
    draw: &mut Draw,
    dtype: DType,
    [n_experts, rows, columns]: [usize; 3],
    (bits, block): (usize, Option<usize>),
) -> ([Tensor; 3], Array) {
    let quantized = draw.any(DType::U8, &[n_experts, rows, columns * bits / 8]);
    let n_blocks = block.map_or(1, |block| columns.div_ceil(block));
    let scale_shape =
        [&[n_experts, rows][..], &vec![n_blocks; usize::from(block.is_some())]].concat();
    let scales = match dtype.is_float() {
        true => {
            let cell = |_: &[usize]| Cell::Float([0.25, 0.5, 1.0][draw.below(3)]);
            Array::from_fn(&scale_shape, cell).to_tensor(dtype)
        }
        false => draw.any(dtype, &scale_shape),
    };
    // Zero points are packed along the last axis: blocks of a row, or rows.
    let packed = |n: usize| (n * bits).div_ceil(8);
    let zero_shape = match block {
        Some(_) => vec![n_experts, rows, packed(n_blocks)],
        None => vec![n_experts, packed(rows)],
    };
    let zeros = draw.any(DType::U8, &zero_shape);
    if !dtype.is_float() {
        return ([quantized, scales, zeros], Array::from_fn(&[0], |_| Cell::Bool(false)));
    }
    let (quantized_cells, scale_cells, zero_cells) =
        (Array::of(&quantized), Array::of(&scales), Array::of(&zeros));
    let packed_at = |bytes: &[Cell], i: usize| {
        Cell::Int(bytes[i * bits / 8].int() >> (i * bits % 8) & ((1 << bits) - 1)).float()
    };
    let weights = Array::from_fn(&[n_experts, rows, columns], |at| {
        let (row, own) = (at[0] * rows + at[1], block.map_or(0, |block| at[2] / block));
        let bytes = &quantized_cells.cells[row * (columns * bits / 8)..];
        let zero = match block {
            Some(_) => packed_at(&zero_cells.cells[row * packed(n_blocks)..], own),
            None => packed_at(&zero_cells.cells[at[0] * packed(rows)..], at[1]),
        };
        let scale = scale_cells.cells[row * n_blocks + own].float();
        Cell::Float((packed_at(bytes, at[2]) - zero) * scale)
    });
    ([quantized, scales, zeros], weights)
}

fn qmoe(draw: &mut Draw, dtype: DType) -> Sample {
    let block = draw.one_in(2).then_some(16);
    let (hidden, inner) = if block.is_some() { (32, 16) } else { (4, 8) };
    let (sizes, middle) = (sizes(draw, hidden, inner), Middle::draw(draw));
    let bits = draw.pick(&[2, 4, 8]);
    let [x, logits] = tokens(draw, dtype, sizes);
    let layers: Vec<_> = shapes(middle, sizes)
        .into_iter()
        .map(|[rows, columns]| {
            let bias = draw.small(dtype, &[sizes.n_experts, rows]);
            (quantized(draw, dtype, [sizes.n_experts, rows, columns], (bits, block)), bias)
        })
        .collect();
    let given: Vec<_> =
        layers.iter().map(|((_, weights), bias)| (weights.clone(), bias.clone())).collect();
    let mut sample = Sample::new(&[&x.clone(), &logits.clone()], move || {
        let layer = |(weights, bias): &(Array, Tensor)| Layer {
            weights: weights.clone(),
            bias: Some(Array::of(bias)),
        };
        let layers: Vec<_> = given.iter().map(layer).collect();
        let operands = (&Array::of(&x), &Array::of(&logits));
        let y = mixed(operands, sizes, (middle, true), &layers);
        vec![Expected::close(dtype, y, 1e-9)]
    });
    for (i, (([quantized, scales, zeros], _), bias)) in layers.into_iter().enumerate() {
        sample = sample.input(2 + 3 * i, quantized).input(3 + 3 * i, scales).input(4 + 3 * i, bias);
        sample = sample.input(11 + i, zeros);
    }
    middle
        .attrs(sample)
        .attr("k", Attr::Int(signed(sizes.k)))
        .attr("expert_weight_bits", Attr::Int(signed(bits)))
        .maybe("block_size", block.map(|block| Attr::Int(signed(block))))
}
