//! Gates, norms and mixes of rows of features, and rotary positions of three kinds.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::attending::{FLOATS, SLACK, by_row, count, rotated, sigmoid};
use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("BranchwiseRMSNorm", branchwise_norm),
    Property::microsoft("EngramGate", engram_gate),
    Property::microsoft("GatedAdd", gated_add),
    Property::microsoft("GatedRMSNorm", gated_norm),
    Property::microsoft("HyperConnectionPostMix", post_mix),
    Property::microsoft("HyperConnectionPreMix", pre_mix),
    Property::microsoft("MRotaryEmbedding", rotary),
    Property::microsoft("ScaledSiLU", scaled_silu),
];

/// Rows `[…, size]` cut into runs of `size`, each over the root of its mean square and `epsilon`.
fn normed(x: &Array, size: usize, epsilon: f64) -> Array {
    let cells = x.cells.chunks(size.max(1)).flat_map(|run| {
        let sum: f64 = run.iter().map(|x| x.float().powi(2)).sum();
        let root = (sum / size as f64 + epsilon).sqrt();
        run.iter().map(move |x| Cell::Float(x.float() / root))
    });
    Array { shape: x.shape.clone(), cells: cells.collect() }
}

/// Each cell combined with that of the same position after broadcasting.
fn zipped(a: &Array, b: &Array, f: impl Fn(f64, f64) -> f64) -> Array {
    Array::from_fn(&a.shape, |i| Cell::Float(f(a.at(i).float(), b.at_broadcast(i).float())))
}

fn within(dtype: DType, outputs: impl IntoIterator<Item = Array>) -> Vec<Expected> {
    outputs.into_iter().map(|x| Expected::within(dtype, x, SLACK)).collect()
}

/// The product is rounded before it is added.
fn gated_add(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let mut gates = shape.clone();
    *gates.last_mut().unwrap() = 1;
    let [x, y] = [(); 2].map(|()| draw.real(dtype, &shape, 4.0));
    let gate = draw.real(dtype, &gates, 4.0);
    Sample::new(&[&x.clone(), &y.clone(), &gate.clone()], move || {
        let gated = zipped(&Array::of(&y), &Array::of(&gate), |y, gate| y * gate);
        let gated = gated.map(|gated| gated.clone().rounded(dtype));
        Expected::exact(dtype, zipped(&Array::of(&x), &gated, |x, gated| x + gated))
    })
}

/// `z = scale · x` and its sigmoid are rounded, before they are multiplied; the rounding of a sigmoid near a tie
/// changes the product by a unit or two.
fn scaled_silu(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.real(dtype, &shape, 4.0);
    let scale_type = draw.pick(&FLOATS);
    let scale = draw.real(scale_type, &[], 2.0);
    let scale = draw.one_in(2).then_some(scale);
    let given = draw.pick(&[None, Some(-0.75)]);
    Sample::of([Some(x.clone()), scale.clone()], move || {
        let scale = scale.as_ref().map(|scale| Array::of(scale).cells[0].float());
        let scale = scale.unwrap_or(f64::from(given.unwrap_or(1.0)));
        let rounded = |x: f64| Cell::Float(x).rounded(dtype).float();
        let y = Array::of(&x).map(|x| {
            let z = rounded(scale * x.float());
            Cell::Float(z * rounded(sigmoid(z)))
        });
        Expected::near(dtype, y, 4.0)
    })
    .maybe("alpha", given.map(Attr::Float))
}

fn gated_norm(draw: &mut Draw, dtype: DType) -> Sample {
    let (mut shape, size) = (draw.shape(1), draw.dim());
    let last = shape.last_mut().unwrap();
    *last *= size;
    let [x, gate] = [(); 2].map(|()| draw.real(dtype, &shape, 4.0));
    let scale = draw.real(dtype, &[size], 4.0);
    let activation = draw.pick(&[None, Some("silu"), Some("swish"), Some("sigmoid")]);
    let epsilon = draw.pick(&[None, Some(0.5)]);
    Sample::new(&[&x.clone(), &scale.clone(), &gate.clone()], move || {
        let x = normed(&Array::of(&x), size, f64::from(epsilon.unwrap_or(1e-5)));
        let scale = Array::of(&scale);
        let scaled = Array::from_fn(&x.shape, |at| {
            let own = at[at.len() - 1] % size;
            Cell::Float(x.at(at).float() * scale.at(&[own]).float())
        });
        let y = zipped(&scaled, &Array::of(&gate), |x, gate| {
            x * sigmoid(gate) * if activation == Some("sigmoid") { 1.0 } else { gate }
        });
        within(dtype, [y])
    })
    .maybe("activation", activation.map(|it| Attr::String(it.into())))
    .maybe("epsilon", epsilon.map(Attr::Float))
}

/// Streams `[…, C, H]`, which a node may store as `[…, C·H]`.
struct Streams {
    x: Array,
    leading: Vec<usize>,
    branches: usize,
    size: usize,
    is_flat: bool,
}

impl Streams {
    fn draw(draw: &mut Draw, dtype: DType) -> Self {
        let rank = draw.below(4);
        let leading = draw.shape_of_rank(rank);
        let (is_flat, size) = (draw.one_in(2), draw.dim());
        let branches = if is_flat { draw.some_dim() } else { draw.dim() };
        let shape = [&leading[..], &[branches, size]].concat();
        let x = Array::of(&draw.real(dtype, &shape, 2.0));
        Self { x, leading, branches, size, is_flat }
    }

    /// `[…, C, H]` as the node stores it.
    fn given(&self, x: &Array) -> Array {
        match self.is_flat {
            true => x.reshaped(&self.with(&[self.branches * self.size])),
            false => x.clone(),
        }
    }

    fn with(&self, dims: &[usize]) -> Vec<usize> {
        [&self.leading[..], dims].concat()
    }

    /// One for each stream, or for each of its features: an operand `[…, C]` or `[…, C, H]`.
    fn gates(&self, draw: &mut Draw, dtype: DType) -> (Tensor, Array) {
        let is_full = draw.one_in(2);
        let dims = if is_full { vec![self.branches, self.size] } else { vec![self.branches] };
        let gates = draw.real(dtype, &self.with(&dims), 2.0);
        let array = Array::of(&gates);
        let full = if is_full { array } else { array.reshaped(&self.with(&[self.branches, 1])) };
        (gates, full)
    }

    fn num_branches(&self, draw: &mut Draw) -> Option<Attr> {
        let zero = draw.one_in(2).then_some(Attr::Int(0));
        if self.is_flat { Some(count(self.branches)) } else { zero }
    }
}

fn branchwise_norm(draw: &mut Draw, dtype: DType) -> Sample {
    let streams = Streams::draw(draw, dtype);
    let (n, size) = (streams.branches, streams.size);
    let shape = draw.pick(&[None, Some(vec![n * size]), Some(vec![n, size]), Some(vec![size])]);
    let scale_type = draw.pick(&FLOATS);
    let scale = shape.map(|shape| draw.real(scale_type, &shape, 2.0));
    let epsilon = draw.pick(&[None, Some(0.5)]);
    let written = streams.num_branches(draw);
    let x = streams.given(&streams.x).to_tensor(dtype);
    Sample::of([Some(x), scale.clone()], move || {
        let y = normed(&streams.x, size, f64::from(epsilon.unwrap_or(1e-5)));
        let y = scale.as_ref().map_or(y.clone(), |scale| {
            let scale = Array::of(scale);
            let is_full = scale.cells.len() == n * size;
            let shape = if is_full { vec![n, size] } else { vec![size] };
            let scale = scale.reshaped(&shape);
            zipped(&y, &scale, |y, scale| y * scale)
        });
        within(dtype, [streams.given(&y)])
    })
    .maybe("epsilon", epsilon.map(Attr::Float))
    .maybe("num_branches", written)
}

fn pre_mix(draw: &mut Draw, dtype: DType) -> Sample {
    let streams = Streams::draw(draw, dtype);
    let gate_type = draw.pick(&FLOATS);
    let (mix, gates) = streams.gates(draw, gate_type);
    let given = draw.pick(&[None, Some(0.5)]);
    let written = streams.num_branches(draw);
    let x = streams.given(&streams.x).to_tensor(dtype);
    Sample::new(&[&x, &mix], move || {
        let mixed = zipped(&streams.x, &gates, |x, gate| x * gate);
        let y = mixed.reduced(&[streams.leading.len()], |branches| {
            let sum: f64 = branches.iter().map(|x| x.float()).sum();
            Cell::Float(f64::from(given.unwrap_or(1.0)) * sum)
        });
        within(dtype, [y.reshaped(&streams.with(&[streams.size]))])
    })
    .maybe("reduction_scale", given.map(Attr::Float))
    .maybe("num_branches", written)
}

fn post_mix(draw: &mut Draw, dtype: DType) -> Sample {
    let streams = Streams::draw(draw, dtype);
    let (n, size) = (streams.branches, streams.size);
    let gate_type = draw.pick(&FLOATS);
    let (mix, gates) = streams.gates(draw, gate_type);
    let added = draw.real(dtype, &streams.with(&[size]), 2.0);
    let matrix = draw.real(gate_type, &streams.with(&[n, n]), 2.0);
    let matrix = draw.one_in(2).then_some(matrix);
    let written = streams.num_branches(draw);
    let x = streams.given(&streams.x).to_tensor(dtype);
    Sample::of([Some(x), Some(added.clone()), Some(mix), matrix.clone()], move || {
        let (added, matrix) = (Array::of(&added), matrix.as_ref().map(Array::of));
        let y = Array::from_fn(&streams.x.shape, |at| {
            let (row, own) = at.split_at(at.len() - 2);
            let x = |c| streams.x.at(&[row, &[c, own[1]]].concat()).float();
            let mixed = matrix.as_ref().map_or_else(
                || x(own[0]),
                |it| (0..n).map(|c| it.at(&[row, &[c, own[0]]].concat()).float() * x(c)).sum(),
            );
            let added = added.at(&[row, &own[1..]].concat()).float();
            Cell::Float(mixed + gates.at_broadcast(at).float() * added)
        });
        within(dtype, [streams.given(&y)])
    })
    .maybe("num_branches", written)
}

fn engram_gate(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len, heads, size] = [(); 4].map(|()| draw.dim());
    let shape = [batch, len, heads, size];
    let [key, query] = [(); 2].map(|()| draw.real(dtype, &shape, 2.0));
    let value = draw.real(dtype, &[batch, len, size], 2.0);
    let scales = [(); 3].map(|()| draw.real(dtype, &[heads, size], 2.0));
    let epsilon = draw.pick(&[None, Some(0.5)]);
    let n = draw.pick(&[1, 2]);
    let has_last = n == 2 || draw.one_in(2);
    let operands = [&key, &query, &value, &scales[0], &scales[1]].map(|x| Some(x.clone()));
    let last = has_last.then(|| scales[2].clone());
    Sample::of(operands.into_iter().chain([last]), move || {
        let scaled = |x: &Array, i: usize| {
            let x = normed(x, size, f64::from(epsilon.unwrap_or(1e-5)));
            zipped(&x, &Array::of(&scales[i]), |x, scale| x * scale)
        };
        let products =
            zipped(&scaled(&Array::of(&key), 0), &scaled(&Array::of(&query), 1), |k, q| k * q);
        let gates = products.reduced(&[3], |row| {
            let dot = row.iter().map(|x| x.float()).sum::<f64>() / (size as f64).sqrt();
            let root = dot.abs().max(1e-6).sqrt();
            let sign = f64::from(i8::from(dot > 0.0) - i8::from(dot < 0.0));
            Cell::Float(sigmoid(sign * root))
        });
        let value = Array::of(&value).reshaped(&[batch, len, 1, size]);
        let y = Array::from_fn(&shape, |at| {
            Cell::Float(gates.at_broadcast(at).float() * value.at_broadcast(at).float())
        });
        let mut outputs = vec![y.clone(), scaled(&y, 2)];
        outputs.truncate(n);
        within(dtype, outputs)
    })
    .outputs(n)
    .maybe("epsilon", epsilon.map(Attr::Float))
}

/// Pairs are rotated by the first, second or third position of a step.
fn rotary(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len, heads] = [draw.dim(), draw.dim(), draw.some_dim()];
    let sections = [draw.below(3), draw.below(3), draw.below(3)];
    let pairs: usize = sections.iter().sum();
    // No rotated pairs means all.
    let unturned = if pairs == 0 { 0 } else { draw.pick(&[0, 0, 1, 2]) };
    let size = 2 * pairs + unturned;
    let rows = 1 + draw.below(4);
    let x = Array::of(&draw.real(dtype, &[batch, heads, len, size], 4.0));
    let ids = draw.positions(&[3, batch, len], rows, false);
    let tables = [(); 2].map(|()| draw.real(dtype, &[rows, pairs], 1.0));
    let is_split = draw.one_in(2);
    let (is_interleaved, interleaved) = draw.flag(false);
    let (takes_turns, layout) = draw.flag(false);
    let has_size = unturned > 0 || draw.one_in(2);
    let given = if is_split { x.clone() } else { by_row(&x) };
    let ids_tensor = ids.to_tensor(DType::I64);
    let operands = [&given.to_tensor(dtype), &ids_tensor, &tables[0], &tables[1]];
    Sample::new(&operands.map(Clone::clone).each_ref(), {
        let tables = tables.each_ref().map(Array::of);
        move || {
            let y = rotated(&x, (pairs, is_interleaved), |[b, step, pair]| {
                let of = |i: usize| pair % 3 == i && pair < 3 * sections[i];
                let stream = match takes_turns {
                    true if of(2) => 2,
                    true => usize::from(of(1)),
                    false => {
                        let ends = [sections[0], sections[0] + sections[1]];
                        ends.iter().filter(|&&end| pair >= end).count()
                    }
                };
                let row = ids.index_at(&[stream, b, step], rows);
                let [cos, sin] = tables.each_ref().map(|it| it.at(&[row, pair]).float());
                (cos, sin)
            });
            let y = if is_split { y } else { by_row(&y) };
            within(dtype, [y])
        }
    })
    .attr("mrope_section", Attr::Ints(sections.map(signed).to_vec()))
    .maybe("mrope_layout", layout)
    .maybe("interleaved", interleaved)
    .maybe("num_heads", (has_size || draw.one_in(2)).then(|| count(heads)))
    .maybe("rotary_embedding_dim", has_size.then(|| count(2 * pairs)))
}
