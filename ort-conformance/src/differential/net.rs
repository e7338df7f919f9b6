//! A graph that is being written, with an estimate of the rounding error of each value.
//!
//! # Bounds
//!
//! A value carries the root mean square of its elements and that of their rounding errors. Inputs are
//! independent random numbers, so errors add up as random walks do (Higham and Mary, "A New Approach to
//! Probabilistic Rounding Error Analysis", 2019). With `u = 2^-24` and a sum of `n` products whose factors
//! are `x` and `w` at root mean square:
//!
//! ```text
//! partial sum i  ≈ √i·x·w              of terms of either sign
//! its rounding   ≤ u·√i·x·w            independent of the others
//! all of them    ≤ √(Σ i)·u·x·w        ≤ n·u·x·w
//! errors of x    → √n·w·error(x)       and the same for those of w
//! ```
//! A sum of `n` terms of one sign has partial sums of `i·x` instead, and errors of `n^1.5·u·x`. A function multiplies
//! errors by its steepest slope, and adds a few roundings of its own. Since each of a million elements must be within
//! its bound, and expected and found both err, the bound is [`N_DEVIATIONS`] times the error.

use std::fmt::{Display, Write as _};

use super::case::Case;
use super::draw::Draw;

/// Half the distance from 1 to the next float.
pub(crate) const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// The tolerance of a result, in standard deviations of its rounding error. Two independent ones of a normal
/// distribution are further than 12/√2 apart once in 10^16 times.
const N_DEVIATIONS: f64 = 12.0;

/// A value of a graph that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// Its name.
    pub(crate) name: String,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// About the root mean square of its elements, or more.
    pub(crate) size: f64,
    /// About the root mean square of the rounding errors in it, or more.
    pub(crate) error: f64,
}

/// A graph that is being written.
#[derive(Debug)]
pub(crate) struct Net<'d> {
    /// Where its numbers come from.
    pub(crate) draw: &'d mut Draw,
    inputs: Vec<String>,
    text: String,
    n_names: usize,
}

impl Value {
    /// The sums of `n` products of `x` and `w` each, plus `bias`: a value of this name and shape.
    pub(crate) fn sums(
        name: String,
        shape: Vec<usize>,
        (n, [x, w]): (usize, [&Self; 2]),
        bias: Option<&Self>,
    ) -> Self {
        let n = n as f64;
        let (of_bias, bias_error) = bias.map_or((0.0, 0.0), |bias| (bias.size, bias.error));
        let size = (n.sqrt() * x.size * w.size).hypot(of_bias);
        let passed = n.sqrt() * (x.size * w.error).hypot(w.size * x.error);
        // Each partial sum rounds once more for a bias that it starts from.
        let own = ROUNDING * (n * x.size * w.size + n.sqrt().max(1.0) * of_bias);
        let error = own.hypot(passed).hypot(bias_error);
        Self { name, shape, size, error }
    }

    /// The same with another size, and errors scaled by `slope` plus a few roundings of the result.
    pub(crate) fn after(&self, slope: f64, size: f64) -> (f64, f64) {
        (size, (self.error * slope).hypot(4.0 * ROUNDING * size))
    }
}

impl<'d> Net<'d> {
    /// An empty graph.
    pub(crate) const fn new(draw: &'d mut Draw) -> Self {
        Self { draw, inputs: Vec::new(), text: String::new(), n_names: 0 }
    }

    /// A new name.
    fn fresh(&mut self, letter: char) -> String {
        self.n_names += 1;
        format!("{letter}{}", self.n_names)
    }

    fn declare(&mut self, name: String, dtype: &str, shape: &[usize], size: f64) -> Value {
        self.inputs.push(format!("{name}: {dtype}[{}]", list(shape)));
        Value { name, shape: shape.to_vec(), size, error: 0.0 }
    }

    /// Floats in [−1, 1), as an input of the run.
    pub(crate) fn input(&mut self, shape: &[usize]) -> Value {
        let name = self.fresh('x');
        self.declare(name, "float", shape, 1.0 / 3.0_f64.sqrt())
    }

    /// Elements of any type: an input or, if the letter is `w`, a constant; for `words` see `data`.
    pub(crate) fn any(&mut self, letter: char, words: &str, dtype: &str, shape: &[usize]) -> Value {
        let name = self.fresh(letter) + words;
        self.declare(name, dtype, shape, 1.0)
    }

    /// Floats, mostly constant, scaled so that a sum of `n` products keeps the size.
    pub(crate) fn weights(&mut self, shape: &[usize], n: usize) -> Value {
        let letter = if self.draw.one_in(6) { 'x' } else { 'w' };
        self.scaled(letter, shape, n)
    }

    /// Floats scaled so that a sum of `n` products keeps the size.
    pub(crate) fn scaled(&mut self, letter: char, shape: &[usize], n: usize) -> Value {
        let halvings = (n.max(1).ilog2() / 2).saturating_sub(1);
        let name = format!("{}_s{halvings}", self.fresh(letter));
        let size = f64::from(halvings).exp2().recip() / 3.0_f64.sqrt();
        self.declare(name, "float", shape, size)
    }

    /// Floats in [0.5, 1.5).
    pub(crate) fn positive(&mut self, letter: char, shape: &[usize]) -> Value {
        let name = self.fresh(letter) + "_p";
        self.declare(name, "float", shape, 1.0)
    }

    /// Constant integers in the text.
    pub(crate) fn ints(&mut self, values: &[i64]) -> String {
        let name = self.fresh('k');
        let _ = writeln!(self.text, "  {name} = const int64[{}] [{}]", values.len(), list(values));
        name
    }

    /// Constant elements in the text: `float[] 0.5`.
    pub(crate) fn literal(&mut self, contents: &str) -> String {
        let name = self.fresh('k');
        let _ = writeln!(self.text, "  {name} = const {contents}");
        name
    }

    /// A node with one output, whose name is returned.
    pub(crate) fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        let name = self.fresh('y');
        let _ = writeln!(self.text, "  {name} = {op} ({})", inputs.join(", "));
        name
    }

    /// A node with several outputs.
    pub(crate) fn node_of(&mut self, op: &str, inputs: &[&str], n_outputs: usize) -> Vec<String> {
        let names: Vec<String> = (0..n_outputs).map(|_| self.fresh('y')).collect();
        let _ = writeln!(self.text, "  {} = {op} ({})", names.join(", "), inputs.join(", "));
        names
    }

    /// A node that keeps the shape of a value, with a slope of at most `slope` and results of about `size`.
    pub(crate) fn mapped(&mut self, op: &str, x: &Value, (slope, size): (f64, f64)) -> Value {
        let name = self.node(op, &[&x.name]);
        let (size, error) = x.after(slope, size);
        Value { name, shape: x.shape.clone(), size, error }
    }

    /// The case with these outputs.
    pub(crate) fn finish(self, family: &'static str, outputs: &[Value]) -> Case {
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let (inputs, outs) = (self.inputs.join(", "), names.join(", "));
        let text = format!("graph({inputs}) -> ({outs}) {{\n{}}}", self.text);
        let bounds = outputs.iter().map(|output| N_DEVIATIONS * output.error).collect();
        let has_shapes = !self.draw.one_in(5);
        Case { family, text, has_shapes, bounds }
    }
}

/// Numbers as a list in the text of a graph.
pub(crate) fn list<T: Display>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
