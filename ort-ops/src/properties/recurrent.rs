//! Recurrent layers, step by step.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::function::Function;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("RNN", &[1, 7, 14, 22], |draw, dtype| layer(draw, dtype, Kind::Rnn)),
    Property::onnx("GRU", &[1, 3, 7, 14, 22], |draw, dtype| layer(draw, dtype, Kind::Gru)),
    Property::onnx("LSTM", &[1, 7, 14, 22], |draw, dtype| layer(draw, dtype, Kind::Lstm)),
];

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    fn n_gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    fn functions(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The operands of a layer; the batch is the second axis.
pub(super) struct Layer {
    pub(super) kind: Kind,
    /// For each direction, whether it goes from last to first.
    pub(super) directions: Vec<bool>,
    pub(super) functions: Vec<Function>,
    pub(super) clip: f64,
    /// `linear_before_reset` or `input_forget`.
    pub(super) flag: bool,
    pub(super) x: Array,
    pub(super) w: Array,
    pub(super) r: Array,
    pub(super) b: Option<Array>,
    pub(super) lens: Option<Array>,
    pub(super) h: Option<Array>,
    pub(super) c: Option<Array>,
    pub(super) p: Option<Array>,
}

impl Layer {
    fn hidden(&self) -> usize {
        self.r.shape[2]
    }

    /// The input of a gate of a unit, from input and state, with biases.
    fn gate(&self, (d, gate, j): (usize, usize, usize), x: &[f64], h: &[f64]) -> [f64; 2] {
        let row = gate * self.hidden() + j;
        let n_rows = self.r.shape[1];
        let bias = |row: usize| self.b.as_ref().map_or(0.0, |b| b.at(&[d, row]).float());
        let sum = |weights: &Array, x: &[f64]| -> f64 {
            x.iter().enumerate().map(|(i, x)| weights.at(&[d, row, i]).float() * x).sum()
        };
        [sum(&self.w, x) + bias(row), sum(&self.r, h) + bias(n_rows + row)]
    }

    /// Function `index` of direction `d` of a clipped number.
    fn f(&self, d: usize, index: usize, x: f64) -> f64 {
        let function = &self.functions[d * self.kind.functions().len() + index];
        function.apply(x.clamp(-self.clip, self.clip))
    }

    /// The next state.
    pub(super) fn step(&self, d: usize, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let units = 0..self.hidden();
        let whole = |gate: usize, j: usize| self.gate((d, gate, j), x, h).iter().sum::<f64>();
        match self.kind {
            Kind::Rnn => (units.map(|j| self.f(d, 0, whole(0, j))).collect(), vec![]),
            Kind::Gru => {
                let update: Vec<_> = units.clone().map(|j| self.f(d, 0, whole(0, j))).collect();
                let reset: Vec<_> = units.clone().map(|j| self.f(d, 0, whole(1, j))).collect();
                let kept: Vec<_> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
                let candidate = |j: usize| {
                    let sum = if self.flag {
                        let [x, h] = self.gate((d, 2, j), x, h);
                        x + reset[j] * h
                    } else {
                        self.gate((d, 2, j), x, &kept).iter().sum()
                    };
                    self.f(d, 1, sum)
                };
                let next = |j: usize| (1.0 - update[j]) * candidate(j) + update[j] * h[j];
                (units.map(next).collect(), vec![])
            }
            Kind::Lstm => units
                .map(|j| {
                    let peep = |gate: usize, c: f64| {
                        let weight = |p: &Array| p.at(&[d, gate * h.len() + j]).float();
                        whole(gate, j) + self.p.as_ref().map_or(0.0, weight) * c
                    };
                    let input = self.f(d, 0, peep(0, c[j]));
                    let forget = if self.flag { 1.0 - input } else { self.f(d, 0, peep(2, c[j])) };
                    let next = forget * c[j] + input * self.f(d, 1, whole(3, j));
                    let output = self.f(d, 0, peep(1, next));
                    let last = &self.functions[d * 3 + 2];
                    (output * last.apply(next), next)
                })
                .unzip(),
        }
    }

    /// `y: [S, D, B, H]`, and the last states `[D, B, H]`.
    fn run(&self) -> [Array; 3] {
        let &[steps, batch, _] = &self.x.shape[..] else { panic!("{:?}", self.x.shape) };
        let (n, units) = (self.directions.len(), self.hidden());
        let zeros = |shape: &[usize]| Array::from_fn(shape, |_| Cell::Float(0.0));
        let mut y = zeros(&[steps, n, batch, units]);
        let mut last = [zeros(&[n, batch, units]), zeros(&[n, batch, units])];
        for (d, b) in (0..n).flat_map(|d| (0..batch).map(move |b| (d, b))) {
            let row = |x: &Array, at: &[usize], n: usize| -> Vec<f64> {
                (0..n).map(|i| x.at(&[at, &[i]].concat()).float()).collect()
            };
            let first =
                |x: &Option<Array>| x.as_ref().map_or(vec![0.0; units], |x| row(x, &[d, b], units));
            let (mut h, mut c) = (first(&self.h), first(&self.c));
            let len = self
                .lens
                .as_ref()
                .map_or(steps, |lens| usize::try_from(lens.cells[b].int()).unwrap());
            for step in 0..len {
                let t = if self.directions[d] { len - 1 - step } else { step };
                let x = row(&self.x, &[t, b], self.x.shape[2]);
                (h, c) = self.step(d, &x, &h, &c);
                let start = ((t * n + d) * batch + b) * units;
                y.cells[start..start + units].clone_from_slice(&cells(&h));
            }
            // For length 0, the last states are 0.
            if len > 0 {
                let start = (d * batch + b) * units;
                for (last, state) in last.iter_mut().zip([&h, &c]) {
                    let state = cells(state);
                    last.cells[start..start + state.len()].clone_from_slice(&state);
                }
            }
        }
        let [h, c] = last;
        [y, h, c]
    }
}

pub(super) fn cells(x: &[f64]) -> Vec<Cell> {
    x.iter().copied().map(Cell::Float).collect()
}

/// The functions of all directions, and their attributes.
pub(super) fn functions(
    draw: &mut Draw,
    kind: Kind,
    n_directions: usize,
) -> (Vec<Function>, Vec<(&'static str, Attr)>) {
    let names = kind.functions();
    if draw.one_in(2) {
        let all = names.iter().cycle().take(n_directions * names.len());
        return (all.map(|name| Function::named(name)).collect(), vec![]);
    }
    let all: Vec<_> = (0..n_directions * names.len()).map(|_| Function::of_cell(draw)).collect();
    let parameters = |i: usize| {
        Attr::Floats(all.iter().filter_map(|it| it.parameters.get(i).copied()).collect())
    };
    let names = all.iter().map(|it| it.name.to_owned()).collect();
    let attrs = vec![
        ("activations", Attr::Strings(names)),
        ("activation_alpha", parameters(0)),
        ("activation_beta", parameters(1)),
    ];
    (all, attrs)
}

/// `linear_before_reset` or `input_forget`, if there is such a flag.
fn flag(draw: &mut Draw, kind: Kind) -> (bool, Option<Attr>) {
    match kind {
        Kind::Rnn => (false, None),
        Kind::Gru if draw.version < 3 => (false, None),
        _ => draw.flag(false),
    }
}

fn layer(draw: &mut Draw, dtype: DType, kind: Kind) -> Sample {
    let (is_batch_first, layout) =
        if draw.version >= 14 { draw.flag(false) } else { (false, None) };
    let (flag, written) = flag(draw, kind);
    let (direction, directions) = draw.pick(&[
        ("forward", vec![false]),
        ("reverse", vec![true]),
        ("bidirectional", vec![false, true]),
    ]);
    let clip = draw.pick(&[None, None, Some(0.75)]);
    let (functions, mut attrs) = functions(draw, kind, directions.len());
    let operands = operands(draw, dtype, kind, directions.len());
    let units = operands[2].as_ref().unwrap().shape()[2];
    let [x, w, r, b, lens, h, c, p] = operands.each_ref().map(|x| x.as_ref().map(Array::of));
    let layer = Layer {
        kind,
        directions,
        functions,
        clip: clip.map_or(f64::INFINITY, f64::from),
        flag,
        x: x.unwrap(),
        w: w.unwrap(),
        r: r.unwrap(),
        b,
        lens,
        h,
        c,
        p,
    };
    let is_lstm = kind == Kind::Lstm;
    let n_outputs = 1 + draw.below(if is_lstm { 3 } else { 2 });
    let mut sample = Sample::new(&[], move || {
        let [y, h, c] = layer.run();
        let outputs = match is_batch_first {
            true => {
                let [h, c] = [h, c].map(|x| x.transposed(&[1, 0, 2]));
                [y.transposed(&[2, 0, 1, 3]), h, c]
            }
            false => [y, h, c],
        };
        let near = |y| close(dtype, y);
        outputs.into_iter().take(n_outputs).map(near).collect()
    });
    for (index, x) in operands.into_iter().enumerate() {
        let is_moved = is_batch_first && matches!(index, 0 | 5 | 6);
        let batch_first = |x| Array::of(&x).transposed(&[1, 0, 2]).to_tensor(dtype);
        let x = if is_moved { x.map(batch_first) } else { x };
        sample = if x.is_some() { sample.input(index, x) } else { sample };
    }
    attrs.push(("hidden_size", Attr::Int(signed(units))));
    let has_direction = direction != "forward" || draw.one_in(2);
    let flag = if is_lstm { "input_forget" } else { "linear_before_reset" };
    let sample = attrs.into_iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr));
    sample
        .maybe("direction", has_direction.then(|| Attr::String(direction.into())))
        .maybe("layout", layout)
        .maybe(flag, written)
        .maybe("clip", clip.map(Attr::Float))
        .outputs(n_outputs)
}

/// The tolerance of single precision, which rounds sums of a few terms in every step.
fn close(dtype: DType, y: Array) -> Expected {
    let most = y.cells.iter().map(|cell| cell.float().abs()).fold(1.0, f64::max);
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    Expected::close(dtype, y, 256.0 * epsilon * most)
}

/// Input, weights of it and of the state, then, each optional: biases, lengths, initial states and peepholes.
pub(super) fn operands(draw: &mut Draw, dtype: DType, kind: Kind, n: usize) -> [Option<Tensor>; 8] {
    let [steps, batch] = [draw.some_dim(), draw.dim().min(3)];
    let [inputs, units] = [draw.some_dim().min(3), draw.some_dim().min(3)];
    let rows = kind.n_gates() * units;
    let is_lstm = kind == Kind::Lstm;
    let present = [true, true, is_lstm, is_lstm].map(|may_be| may_be && draw.one_in(2));
    let lens = Array::from_fn(&[batch], |_| Cell::Int(draw.int(0, signed(steps)).into()));
    let lens = draw.one_in(2).then(|| lens.to_tensor(DType::I32));
    let mut real = |shape: &[usize]| draw.real(dtype, shape, 0.75);
    let states = [n, batch, units];
    let [x, w, r] = [[steps, batch, inputs], [n, rows, inputs], [n, rows, units]]
        .map(|shape| Some(real(&shape)));
    let [b, h, c, p] = [&[n, 2 * rows][..], &states, &states, &[n, 3 * units]].map(&mut real);
    let [has_b, has_h, has_c, has_p] = present;
    let [b, h] = [has_b.then_some(b), has_h.then_some(h)];
    [x, w, r, b, lens, h, has_c.then_some(c), has_p.then_some(p)]
}
