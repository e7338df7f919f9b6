//! Random networks, as text, of convolutions or attention, with everything that the passes look for and much that
//! they must leave alone: constants that several nodes share or that a run may override, values within a pattern that
//! are returned, captured or read twice, unknown dimensions.

mod attentional;
mod convolutional;

use std::fmt::Write as _;

use ort_testing::Rng;

/// The named dimensions in a run.
pub(crate) const SIZES: &[(&str, usize)] = &[("n", 2), ("h", 6), ("w", 5), ("b", 2), ("s", 3)];

/// The text of a network of the element type `dtype`.
pub(crate) fn network(dtype: &'static str, n_layers: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let is_convolutional = rng.below(2) == 0;
    let writer = Writer::new(dtype, rng);
    if is_convolutional {
        convolutional::Convolutional::new(writer).with_layers(n_layers)
    } else {
        attentional::Attentional::new(writer).with_layers(n_layers)
    }
}

/// A graph that is being written.
struct Writer {
    rng: Rng,
    dtype: &'static str,
    inputs: Vec<String>,
    text: String,
    n_values: usize,
    constants: Vec<(Vec<usize>, [f64; 2], String)>,
    /// The last value of every layer.
    ends: Vec<String>,
}

impl Writer {
    fn new(dtype: &'static str, rng: Rng) -> Self {
        let inputs = vec!["c: bool[]".to_owned()];
        let (text, constants, ends) = (String::new(), Vec::new(), Vec::new());
        Self { rng, dtype, inputs, text, n_values: 0, constants, ends }
    }

    fn fresh(&mut self) -> String {
        self.n_values += 1;
        format!("v{}", self.n_values)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    /// An input whose dimensions are known, named or neither.
    fn input(&mut self, name: &str, dims: &[(&str, usize)]) {
        let dims: Vec<String> = dims
            .iter()
            .map(|&(symbol, size)| match self.rng.below(3) {
                0 if !symbol.is_empty() => symbol.to_owned(),
                _ => size.to_string(),
            })
            .collect();
        self.inputs.push(format!("{name}: {}[{}]", self.dtype, dims.join(",")));
    }

    /// A constant with elements from `low` to `high`, possibly shared.
    fn constant(&mut self, shape: &[usize], [low, high]: [f64; 2]) -> String {
        let is_same = |(known, range, _): &&(Vec<usize>, [f64; 2], String)| {
            known == shape && *range == [low, high]
        };
        if let Some((.., name)) = self.constants.iter().find(is_same).cloned()
            && self.chance(2)
        {
            return name;
        }
        let name = self.fresh();
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let ty = format!("{}[{}]", self.dtype, dims.join(","));
        // Multiples of 1/16 are exact in every float type.
        let mut draw = || {
            let unit = f64::from(self.rng.uniform()).mul_add(0.5, 0.5);
            ((low + (high - low) * unit) * 16.0).round() / 16.0
        };
        let n: usize = shape.iter().product();
        let elements: Vec<String> = (0..n).map(|_| draw().to_string()).collect();
        let contents =
            if shape.is_empty() { elements.concat() } else { format!("[{}]", elements.join(", ")) };
        if self.chance(12) {
            self.inputs.push(format!("{name} = {ty} {contents}"));
        } else {
            writeln!(self.text, "  {name} = const {ty} {contents}").unwrap();
        }
        self.constants.push((shape.to_vec(), [low, high], name.clone()));
        name
    }

    /// A constant of exactly this one element.
    fn number(&mut self, number: f64) -> String {
        let name = self.fresh();
        let shape = if self.chance(3) { "[1]" } else { "[]" };
        let contents = if shape == "[1]" { format!("[{number}]") } else { number.to_string() };
        writeln!(self.text, "  {name} = const {}{shape} {contents}", self.dtype).unwrap();
        name
    }

    fn ints(&mut self, ints: &[i64]) -> String {
        let name = self.fresh();
        writeln!(self.text, "  {name} = const int64[{}] {ints:?}", ints.len()).unwrap();
        name
    }

    /// A node with one output: `op` is the operator, its version and its attributes.
    fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        let name = self.fresh();
        writeln!(self.text, "  {name} = {op} ({})", inputs.join(", ")).unwrap();
        name
    }

    /// An If whose branches read `x`.
    fn branches(&mut self, x: &str, then: &str, other: &str) -> String {
        let (y, p, q) = (self.fresh(), self.fresh(), self.fresh());
        writeln!(
            self.text,
            "  {y} = If-16 [then_branch: graph() -> ({p}) {{ {p} = {then} ({x}) }}, \
             else_branch: graph() -> ({q}) {{ {q} = {other} ({x}) }}] (c)"
        )
        .unwrap();
        y
    }

    /// An activation of `x`, from one node or from pieces.
    fn activation(&mut self, x: &str) -> String {
        match self.rng.below(15) {
            0 | 1 => self.node("Relu-14", &[x]),
            2 => self.node("Sigmoid-13", &[x]),
            3 => self.node("Tanh-13", &[x]),
            4 => self.node("LeakyRelu-16 [alpha: 0.25]", &[x]),
            5 => {
                let (low, high) = (self.number(0.0), self.number(1.5));
                self.node("Clip-13", &[x, &low, &high])
            }
            6 => self.node("HardSigmoid-6 [alpha: 0.16666667, beta: 0.5]", &[x]),
            7 => self.node("HardSwish-14", &[x]),
            8 => {
                let gate = self.node("HardSigmoid-6 [alpha: 0.16666667, beta: 0.5]", &[x]);
                self.node("Mul-14", &[x, &gate])
            }
            9 => {
                let gate = self.node("Sigmoid-13", &[x]);
                self.node("Mul-14", &[&gate, x])
            }
            10 => self.erf_gelu(x),
            11 => self.tanh_gelu(x),
            12 => {
                let clipped = self.shifted_clip(x);
                let product = self.node("Mul-14", &[x, &clipped]);
                let six = self.number(6.0);
                self.node("Div-14", &[&product, &six])
            }
            13 => {
                let (low, high) = (self.number(0.25), self.number(1.5));
                let rectified = self.node("Relu-14", &[x]);
                self.node("Clip-13", &[&rectified, &low, &high])
            }
            _ => {
                let alpha = self.number(1.702);
                let scaled = self.node("Mul-14", &[x, &alpha]);
                let gate = self.node("Sigmoid-13", &[&scaled]);
                self.node("Mul-14", &[x, &gate])
            }
        }
    }

    /// `clip(x + 3, 0, 6)`.
    fn shifted_clip(&mut self, x: &str) -> String {
        let three = self.number(3.0);
        let sum = self.node("Add-14", &[x, &three]);
        let (low, high) = (self.number(0.0), self.number(6.0));
        self.node("Clip-13", &[&sum, &low, &high])
    }

    fn erf_gelu(&mut self, x: &str) -> String {
        let (root, one, half) =
            (self.number(std::f64::consts::SQRT_2), self.number(1.0), self.number(0.5));
        let quotient = self.node("Div-14", &[x, &root]);
        let erf = self.node("Erf-13", &[&quotient]);
        let sum = self.node("Add-14", &[&erf, &one]);
        if self.chance(2) {
            let product = self.node("Mul-14", &[x, &sum]);
            self.node("Mul-14", &[&product, &half])
        } else {
            let product = self.node("Mul-14", &[&half, x]);
            self.node("Mul-14", &[&product, &sum])
        }
    }

    fn tanh_gelu(&mut self, x: &str) -> String {
        let (three, factor) = (self.number(3.0), self.number(0.044715));
        let (root, one, half) = (self.number(0.79788456), self.number(1.0), self.number(0.5));
        let cube = self.node("Pow-15", &[x, &three]);
        let product = self.node("Mul-14", &[&cube, &factor]);
        let sum = self.node("Add-14", &[x, &product]);
        let scaled = self.node("Mul-14", &[&sum, &root]);
        let tanh = self.node("Tanh-13", &[&scaled]);
        let sum = self.node("Add-14", &[&tanh, &one]);
        let product = self.node("Mul-14", &[x, &sum]);
        self.node("Mul-14", &[&product, &half])
    }

    /// The whole text. The last value is returned, and sometimes others as well.
    fn finished(mut self) -> String {
        let mut outputs: Vec<String> = self.ends.last().cloned().into_iter().collect();
        for _ in 0..self.rng.below(3) {
            let end = self.ends[self.rng.index(self.ends.len())].clone();
            if !outputs.contains(&end) {
                outputs.push(end);
            }
        }
        let (inputs, outputs) = (self.inputs.join(", "), outputs.join(", "));
        format!("graph({inputs}) -> ({outputs}) {{\n{}}}", self.text)
    }
}
