//! Random graphs of operators that a Transpose can pass, whose shapes are all known here.

use std::fmt::Write as _;

use proptest::prelude::*;

/// A graph under construction, whose shapes are all known.
struct Chain {
    text: String,
    values: Vec<(String, Vec<usize>)>,
    /// Random numbers, one per choice; the last is repeated when all are used.
    picks: Vec<u8>,
    n_names: usize,
}

impl Chain {
    fn pick(&mut self, n: usize) -> usize {
        let pick = if self.picks.len() > 1 { self.picks.remove(0) } else { self.picks[0] };
        usize::from(pick) % n.max(1)
    }

    fn name(&mut self, hint: &str) -> String {
        self.n_names += 1;
        format!("{hint}{}", self.n_names)
    }

    /// A value, preferably a late one.
    fn value(&mut self) -> (String, Vec<usize>) {
        let n = self.values.len();
        let back = self.pick(n.min(3));
        self.values[n - 1 - back].clone()
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").unwrap();
    }

    fn constant(&mut self, dtype: &str, shape: &[usize], numbers: &[String]) -> String {
        let name = self.name("k");
        self.line(&format!("{name} = const {dtype}{shape:?} [{}]", numbers.join(", ")));
        name
    }

    fn ints<I: ToString>(&mut self, ints: impl IntoIterator<Item = I>) -> String {
        let numbers: Vec<String> = ints.into_iter().map(|int| int.to_string()).collect();
        self.constant("int64", &[numbers.len()], &numbers)
    }

    fn floats(&mut self, shape: &[usize]) -> String {
        let n: usize = shape.iter().product();
        let numbers: Vec<String> = (0..n).map(|_| format!("{}.25", self.pick(7))).collect();
        self.constant("float", shape, &numbers)
    }

    /// A node of one result, which has this shape.
    fn node(&mut self, operator: &str, inputs: &[&str], shape: Vec<usize>) -> String {
        let name = self.name("v");
        self.line(&format!("{name} = {operator} ({})", inputs.join(", ")));
        self.values.push((name.clone(), shape));
        name
    }

    fn permutation(&mut self, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            let other = self.pick(i + 1);
            axes.swap(i, other);
        }
        axes
    }

    fn transpose(&mut self) {
        let (x, shape) = self.value();
        let perm = self.permutation(shape.len());
        let after = perm.iter().map(|&axis| shape[axis]).collect();
        self.node(&format!("Transpose-13 [perm: {perm:?}]"), &[&x], after);
    }

    fn unary(&mut self) {
        let (x, shape) = self.value();
        let operator = ["Relu-14", "Neg-13", "Abs-13", "Identity-14", "Clip-13"][self.pick(5)];
        self.node(operator, &[&x], shape);
    }

    /// An operand that broadcasts: another value, or a constant of fewer axes or dimensions.
    fn other(&mut self, shape: &[usize]) -> String {
        let same =
            self.values.iter().find(|(_, other)| other == shape).map(|(name, _)| name.clone());
        match self.pick(3) {
            0 => same.unwrap_or_default(),
            1 => {
                let tail = shape[self.pick(shape.len())..].to_vec();
                self.floats(&tail)
            }
            _ => {
                let mut ones = shape.to_vec();
                let axis = self.pick(ones.len());
                ones[axis] = 1;
                self.floats(&ones)
            }
        }
    }

    fn binary(&mut self) {
        let (x, shape) = self.value();
        let y = self.other(&shape);
        let operator = ["Add-14", "Mul-14", "Sub-14", "Max-13"][self.pick(4)];
        let operands = if self.pick(2) == 0 { [&*x, &*y] } else { [&*y, &*x] };
        self.node(operator, &operands, shape);
    }

    fn choice(&mut self) {
        let (x, shape) = self.value();
        let (y, z) = (self.other(&shape), self.other(&shape));
        let condition = self.name("c");
        self.line(&format!("{condition} = Less-13 ({x}, {y})"));
        self.node("Where-16", &[&condition, &x, &z], shape);
    }

    fn quantized(&mut self) {
        let (x, shape) = self.value();
        let axis = self.pick(shape.len());
        let n = shape[axis];
        let scale = self.floats(&[n]);
        let positive = self.name("s");
        let one = self.floats(&[1]);
        self.line(&format!("{positive} = Max-13 ({scale}, {one})"));
        let zero = self.constant("uint8", &[n], &vec!["3".to_owned(); n]);
        let q = self.name("q");
        self.line(&format!("h{q} = const float[] 0.5 t{q} = Add-14 ({positive}, h{q})"));
        self.line(&format!("{q} = QuantizeLinear-13 [axis: {axis}] ({x}, t{q}, {zero})"));
        self.node(
            &format!("DequantizeLinear-13 [axis: {axis}]"),
            &[&q, &format!("t{q}"), &zero],
            shape,
        );
    }

    fn joined(&mut self) {
        let (x, mut shape) = self.value();
        let (y, axis) = (self.node("Neg-13", &[&x], shape.clone()), self.pick(shape.len()));
        shape[axis] *= 2;
        self.node(&format!("Concat-13 [axis: {axis}]"), &[&x, &y], shape);
    }

    fn split(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        let [a, b] = [self.name("v"), self.name("v")];
        let (half, n) = (shape[axis] / 2, shape[axis]);
        if half == 0 {
            return;
        }
        let lengths = self.ints([half, n - half]);
        self.line(&format!("{a}, {b} = Split-13 [axis: {axis}] ({x}, {lengths})"));
        for (name, length) in [(a, half), (b, n - half)] {
            shape[axis] = length;
            self.values.push((name, shape.clone()));
        }
    }

    fn slice(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        let (from, to) = (self.ints([1]), self.ints([i64::MAX]));
        if shape[axis] > 1 {
            shape[axis] -= 1;
            let axis = self.ints([axis]);
            self.node("Slice-13", &[&x, &from, &to, &axis], shape);
        }
    }

    fn pad(&mut self) {
        let (x, mut shape) = self.value();
        let rank = shape.len();
        let pads: Vec<usize> = (0..2 * rank).map(|_| self.pick(5) / 4).collect();
        (0..rank).for_each(|axis| shape[axis] += pads[axis] + pads[axis + rank]);
        let (pads, mode) = (self.ints(pads), ["constant", "edge"][self.pick(2)]);
        self.node(&format!("Pad-13 [mode: \"{mode}\"]"), &[&x, &pads], shape);
    }

    fn reduce(&mut self) {
        let (x, shape) = self.value();
        let (axis, keeps) = (self.pick(shape.len()), self.pick(2));
        let after = without(&shape, axis, keeps == 1);
        let form = self.pick(5);
        if after.is_empty() {
            return;
        }
        match form {
            0 | 1 => {
                let axes = self.ints([axis]);
                self.node(&format!("ReduceSum-13 [keepdims: {keeps}]"), &[&x, &axes], after);
            }
            2 => {
                let operator = format!("ArgMax-13 [axis: {axis}, keepdims: {keeps}]");
                let index = self.node(&operator, &[&x], after.clone());
                self.values.pop();
                self.node("Cast-13 [to: 1]", &[&index], after);
            }
            _ => {
                let operator = ["ReduceMax-13", "ReduceMean-13"][form - 3];
                let attrs = format!("{operator} [axes: [{axis}], keepdims: {keeps}]");
                self.node(&attrs, &[&x], after);
            }
        }
    }

    fn lanes(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        if self.pick(2) == 0 {
            self.node(&format!("Softmax-13 [axis: {axis}]"), &[&x], shape);
        } else {
            shape[axis] = 1;
            let (one, name) = (self.ints([1]), self.name("v"));
            self.line(&format!("{name}, _ = TopK-11 [axis: {axis}] ({x}, {one})"));
            self.values.push((name, shape));
        }
    }

    fn unsqueeze(&mut self) {
        let (x, mut shape) = self.value();
        if shape.len() < 5 {
            let axis = self.pick(shape.len() + 1);
            shape.insert(axis, 1);
            let axis = self.ints([axis]);
            self.node("Unsqueeze-13", &[&x, &axis], shape);
        }
    }

    fn squeeze(&mut self) {
        let (x, mut shape) = self.value();
        if let Some(axis) = shape.iter().position(|&n| n == 1).filter(|_| shape.len() > 1) {
            shape.remove(axis);
            let axis = self.ints([axis]);
            self.node("Squeeze-13", &[&x, &axis], shape);
        }
    }

    fn gather(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        let operator = format!("Gather-13 [axis: {axis}]");
        if self.pick(2) == 0 && shape.len() > 1 {
            shape.remove(axis);
            let index = self.constant("int64", &[], &["0".to_owned()]);
            self.text = self.text.replace("[] [0]", "[] 0");
            self.node(&operator, &[&x, &index], shape);
        } else {
            let last = shape[axis] - 1;
            shape[axis] = 2;
            let indices = self.ints([last, 0]);
            self.node(&operator, &[&x, &indices], shape);
        }
    }

    fn gather_elements(&mut self) {
        let (x, shape) = self.value();
        let (axis, n) = (self.pick(shape.len()), shape.iter().product());
        let numbers: Vec<String> = (0..n).map(|_| self.pick(shape[axis]).to_string()).collect();
        let indices = self.constant("int64", &shape, &numbers);
        self.node(&format!("GatherElements-13 [axis: {axis}]"), &[&x, &indices], shape);
    }

    fn tile(&mut self) {
        let (x, mut shape) = self.value();
        let repeats: Vec<usize> = shape.iter().map(|_| 1 + self.pick(5) / 4).collect();
        shape.iter_mut().zip(&repeats).for_each(|(n, repeats)| *n *= repeats);
        let repeats = self.ints(repeats);
        self.node("Tile-13", &[&x, &repeats], shape);
    }

    fn expand(&mut self) {
        let (x, shape) = self.value();
        let to: Vec<usize> = shape.iter().map(|&n| if n == 1 { 2 } else { n }).collect();
        let shape = self.ints(to.clone());
        self.node("Expand-13", &[&x, &shape], to);
    }

    fn resize(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        let scales: Vec<String> =
            (0..shape.len()).map(|i| if i == axis { "2" } else { "1" }.to_owned()).collect();
        let scales = self.constant("float", &[shape.len()], &scales);
        shape[axis] *= 2;
        let mode = ["nearest", "linear"][self.pick(2)];
        self.node(&format!("Resize-13 [mode: \"{mode}\"]"), &[&x, "_", &scales], shape);
    }

    /// Joins two axes, or splits one.
    fn reshape(&mut self) {
        let (x, mut shape) = self.value();
        let axis = self.pick(shape.len());
        if shape.len() > 1 && axis > 0 {
            shape[axis - 1] *= shape.remove(axis);
        } else if shape[axis].is_multiple_of(2) && shape.len() < 5 {
            shape[axis] /= 2;
            shape.insert(axis, 2);
        }
        let to = self.ints(shape.clone());
        self.node("Reshape-13", &[&x, &to], shape);
    }

    /// A value in the shape of another that has as many elements, as read at run time.
    fn shape(&mut self) {
        let (x, shape) = self.value();
        let name = self.name("s");
        self.line(&format!("{name} = Shape-13 ({x})"));
        self.node("Expand-13", &[&x, &name], shape);
    }

    fn product(&mut self) {
        let (x, mut shape) = self.value();
        if let Some(k) = shape.last_mut().filter(|_| self.values.len() > 1) {
            let matrix = [*k, 2];
            *k = 2;
            if shape.len() > 1 {
                let matrix = self.floats(&matrix);
                self.node("MatMul-13", &[&x, &matrix], shape);
            }
        }
    }

    fn step(&mut self) {
        const STEPS: [fn(&mut Chain); 22] = [
            Chain::unary,
            Chain::binary,
            Chain::choice,
            Chain::quantized,
            Chain::joined,
            Chain::split,
            Chain::slice,
            Chain::pad,
            Chain::reduce,
            Chain::lanes,
            Chain::unsqueeze,
            Chain::squeeze,
            Chain::gather,
            Chain::tile,
            Chain::gather_elements,
            Chain::expand,
            Chain::resize,
            Chain::reshape,
            Chain::shape,
            Chain::product,
            Chain::binary,
            Chain::unary,
        ];
        let is_transpose = self.pick(5) < 2;
        let step = self.pick(STEPS.len());
        match is_transpose {
            true => self.transpose(),
            false => STEPS[step](self),
        }
    }
}

fn without(shape: &[usize], axis: usize, keeps: bool) -> Vec<usize> {
    let mut after = shape.to_vec();
    match keeps {
        true => after[axis] = 1,
        false => drop(after.remove(axis)),
    }
    after
}

/// The text of a graph, and the sizes of its named dimensions.
pub(super) fn chain() -> impl Strategy<Value = (String, Vec<(String, usize)>)> {
    let steps = prop::collection::vec(prop::collection::vec(any::<u8>(), 12), 2..12);
    let dim = (1_usize..4, prop::bool::weighted(0.2));
    let dims = prop::collection::vec(dim, 2..5);
    // Equal dimensions, where a wrong axis does not show in the shape.
    let dims = prop_oneof![dims, prop::collection::vec(Just((3, false)), 2..5)];
    (dims, any::<bool>(), steps, 1_usize..4).prop_map(|(dims, is_known, steps, n_outputs)| {
        let values = vec![("x".to_owned(), dims.iter().map(|(n, _)| *n).collect())];
        let mut chain = Chain { text: String::new(), values, picks: vec![0], n_names: 0 };
        for picks in steps {
            chain.picks = picks;
            let n = chain.values.len();
            chain.step();
            let is_small = |(_, shape): &(_, Vec<usize>)| shape.iter().product::<usize>() <= 4096;
            if !chain.values[n..].iter().all(is_small) {
                break;
            }
        }
        let made: Vec<&str> = chain.values[1..].iter().map(|(name, _)| &**name).collect();
        let outputs = made[made.len().saturating_sub(n_outputs)..].join(", ");
        let named = dims.iter().enumerate().filter(|(_, (_, is_named))| *is_named && !is_known);
        let sizes: Vec<_> = named.map(|(axis, (n, _))| (format!("d{axis}"), *n)).collect();
        let word = |(axis, (n, _)): (usize, &(usize, bool))| {
            let name = format!("d{axis}");
            if sizes.iter().any(|(other, _)| *other == name) { name } else { n.to_string() }
        };
        let words: Vec<String> = dims.iter().enumerate().map(word).collect();
        let head = format!("graph(x: float[{}]) -> ({outputs})", words.join(","));
        (format!("{head} {{\n{}}}", chain.text), sizes)
    })
}
