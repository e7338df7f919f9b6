//! Networks of attention: sequences of vectors of 8.

use super::Writer;

/// The length of a vector.
const WIDTH: usize = 8;

/// Every value has the shape `[b, s, 8]`.
pub(super) struct Attentional {
    writer: Writer,
    values: Vec<String>,
}

impl Attentional {
    pub(super) fn new(mut writer: Writer) -> Self {
        writer.input("x", &[("b", 2), ("s", 3), ("", WIDTH)]);
        Self { writer, values: vec!["x".to_owned()] }
    }

    pub(super) fn with_layers(mut self, n_layers: usize) -> String {
        for _ in 0..n_layers {
            let value = self.layer();
            self.writer.ends.push(value.clone());
            self.values.push(value);
        }
        self.writer.finished()
    }

    fn any(&mut self) -> String {
        let last = self.values.len() - 1;
        let index = if self.writer.chance(4) { self.writer.rng.index(last + 1) } else { last };
        self.values[index].clone()
    }

    fn layer(&mut self) -> String {
        let x = self.any();
        match self.writer.rng.below(13) {
            0 | 1 => self.projected(&x, WIDTH),
            2 | 3 => self.normalized(&x),
            4 => self.residual(&x),
            5 => self.attended(&x),
            6 => self.perceptron(&x),
            7 => self.writer.activation(&x),
            8 => self.scaled_product(&x),
            9 => self.embedded(),
            10 => self.writer.branches(&x, "Identity-14", "Tanh-13"),
            11 => self.classified(),
            _ => self.shuffled(&x),
        }
    }

    /// A product with constant weights, maybe with a bias.
    fn projected(&mut self, x: &str, width: usize) -> String {
        let weights = self.writer.constant(&[WIDTH, width], [-0.5, 0.5]);
        let product = self.writer.node("MatMul-13", &[x, &weights]);
        if self.writer.chance(3) {
            return product;
        }
        let bias = self.writer.constant(&[width], [-1.0, 1.0]);
        let operands = [&*product, &bias];
        let [a, b] = if self.writer.chance(2) { operands } else { [operands[1], operands[0]] };
        self.writer.node("Add-14", &[a, b])
    }

    fn residual(&mut self, x: &str) -> String {
        let other = self.any();
        let sum = self.writer.node("Add-14", &[x, &other]);
        if self.writer.chance(2) { self.normalized(&sum) } else { sum }
    }

    /// A norm of the last axis, from one node or from pieces; its epsilon is so large that it does not
    /// magnify roundings.
    fn normalized(&mut self, x: &str) -> String {
        let scale = self.writer.constant(&[WIDTH], [0.5, 1.5]);
        let bias = self.writer.constant(&[WIDTH], [-1.0, 1.0]);
        let epsilon = self.writer.number(0.125);
        match self.writer.rng.below(4) {
            0 => self.writer.node("LayerNormalization-17 [epsilon: 0.125]", &[x, &scale, &bias]),
            1 => {
                let two = self.writer.number(2.0);
                let square = self.writer.node("Pow-15", &[x, &two]);
                let root = self.deviation(&square, &epsilon);
                let quotient = self.writer.node("Div-14", &[x, &root]);
                self.writer.node("Mul-14", &[&quotient, &scale])
            }
            form => {
                let mean = self.writer.node("ReduceMean-13 [axes: [-1], keepdims: 1]", &[x]);
                let centred = self.writer.node("Sub-14", &[x, &mean]);
                let square = if form == 2 {
                    let two = self.writer.number(2.0);
                    self.writer.node("Pow-15", &[&centred, &two])
                } else {
                    self.writer.node("Mul-14", &[&centred, &centred])
                };
                let root = self.deviation(&square, &epsilon);
                let quotient = self.writer.node("Div-14", &[&centred, &root]);
                let product = self.writer.node("Mul-14", &[&quotient, &scale]);
                self.writer.node("Add-14", &[&product, &bias])
            }
        }
    }

    fn deviation(&mut self, square: &str, epsilon: &str) -> String {
        let mean = self.writer.node("ReduceMean-13 [axes: [-1], keepdims: 1]", &[square]);
        let sum = self.writer.node("Add-14", &[&mean, epsilon]);
        self.writer.node("Sqrt-13", &[&sum])
    }

    fn perceptron(&mut self, x: &str) -> String {
        let hidden = self.projected(x, 2 * WIDTH);
        let hidden = self.writer.activation(&hidden);
        let weights = self.writer.constant(&[2 * WIDTH, WIDTH], [-0.5, 0.5]);
        let bias = self.writer.constant(&[WIDTH], [-1.0, 1.0]);
        let product = self.writer.node("MatMul-13", &[&hidden, &weights]);
        self.writer.node("Add-14", &[&product, &bias])
    }

    /// A norm of rows of tables: of words, of segments or none, and of positions.
    fn embedded(&mut self) -> String {
        let [of_words, of_positions] =
            if self.writer.chance(2) { ["b,s", "1,s"] } else { ["2,3", "1,3"] };
        let mut sum = self.looked_up(of_words);
        for (is_present, dims) in [(self.writer.chance(2), of_words), (true, of_positions)] {
            if is_present {
                let term = self.looked_up(dims);
                sum = self.writer.node("Add-14", &[&sum, &term]);
            }
        }
        self.normalized(&sum)
    }

    fn looked_up(&mut self, dims: &str) -> String {
        let ids = self.writer.fresh();
        let ty = if self.writer.chance(2) { "int32" } else { "int64" };
        self.writer.inputs.push(format!("{ids}: {ty}[{dims}]"));
        let table = self.writer.constant(&[3, WIDTH], [-1.0, 1.0]);
        self.writer.node("Gather-13", &[&table, &ids])
    }

    /// A function of rows of a table, which are looked up or selected by one-hot rows; or a product of them.
    fn classified(&mut self) -> String {
        if self.writer.chance(3) {
            let rows = self.looked_up("b,s");
            let is_projected = self.writer.chance(2);
            return match is_projected {
                true => self.projected(&rows, WIDTH),
                false => self.writer.activation(&rows),
            };
        }
        let (ids, classes) = (self.writer.fresh(), self.writer.fresh());
        self.writer.inputs.push(format!("{ids}: int32[b,s,1]"));
        self.writer.text.push_str(&format!("  {classes} = const int32[1,3] [0, 1, 2]\n"));
        let dtype = match self.writer.dtype {
            "float" => 1,
            "double" => 11,
            "float16" => 10,
            _ => 16,
        };
        let is_class = self.writer.node("Equal-13", &[&ids, &classes]);
        let one_hot = self.writer.node(&format!("Cast-13 [to: {dtype}]"), &[&is_class]);
        let table = self.writer.constant(&[3, WIDTH], [-1.0, 1.0]);
        let product = self.writer.node("MatMul-13", &[&one_hot, &table]);
        if self.writer.chance(2) { self.writer.activation(&product) } else { product }
    }

    /// Attention with two heads.
    fn attended(&mut self, x: &str) -> String {
        let query = self.heads(x, "[0, 2, 1, 3]");
        let mut value = self.heads(x, "[0, 2, 1, 3]");
        let (query, key) = if self.writer.chance(2) {
            (query, self.heads(x, "[0, 2, 3, 1]"))
        } else {
            // As behind a rotation, none is rows that are only transposed.
            let key = self.heads(x, "[0, 2, 1, 3]");
            let [query, key] = [query, key].map(|x| self.writer.node("Neg-13", &[&x]));
            let [key, more] = if self.writer.chance(2) {
                [&key, &value].map(|x| self.repeated(x))
            } else {
                [key, value]
            };
            value = more;
            (query, self.turned(&key))
        };
        let scale = self.writer.number(0.5);
        let scores = self.writer.node("MatMul-13", &[&query, &key]);
        let scores = self.writer.node("Mul-14", &[&scores, &scale]);
        let weights = self.writer.node("Softmax-13", &[&scores]);
        let mixed = self.writer.node("MatMul-13", &[&weights, &value]);
        let joined = self.writer.node("Transpose-13 [perm: [0, 2, 1, 3]]", &[&mixed]);
        let shape = self.shape_of(x, &[8]);
        let flat = self.writer.node("Reshape-14", &[&joined, &shape]);
        self.projected(&flat, WIDTH)
    }

    fn heads(&mut self, x: &str, perm: &str) -> String {
        let projected = self.projected(x, WIDTH);
        let shape = self.shape_of(x, &[2, 4]);
        let split = self.writer.node("Reshape-14", &[&projected, &shape]);
        self.writer.node(&format!("Transpose-13 [perm: {perm}]"), &[&split])
    }

    /// The first head twice.
    fn repeated(&mut self, x: &str) -> String {
        let first = self.writer.ints(&[0]);
        let head = self.writer.node("Gather-13 [axis: 1]", &[x, &first]);
        let axis = self.writer.ints(&[2]);
        let added = self.writer.node("Unsqueeze-13", &[&head, &axis]);
        let times = self.writer.ints(&[1, 1, 2, 1, 1]);
        let repeated = self.writer.node("Expand-13", &[&added, &times]);
        let shape = self.writer.ints(&[0, 2, -1, 4]);
        self.writer.node("Reshape-14", &[&repeated, &shape])
    }

    /// Keys by head for the product: as they are, or in one list, as PyTorch writes it.
    fn turned(&mut self, key: &str) -> String {
        if self.writer.chance(2) {
            return self.writer.node("Transpose-13 [perm: [0, 1, 3, 2]]", &[key]);
        }
        let shape = self.writer.node("Shape-13", &[key]);
        let [first, size] = [&[0, 1], &[2][..]].map(|axes: &[i64]| {
            let axes = self.writer.ints(axes);
            self.writer.node("Gather-13", &[&shape, &axes])
        });
        let [open, four] = [-1, 4].map(|size| self.writer.ints(&[size]));
        let list = self.writer.node("Concat-13 [axis: 0]", &[&open, &size, &four]);
        let list = self.writer.node("Reshape-14", &[key, &list]);
        let turned = self.writer.node("Transpose-13 [perm: [0, 2, 1]]", &[&list]);
        let back = self.writer.node("Concat-13 [axis: 0]", &[&first, &four, &size]);
        self.writer.node("Reshape-14", &[&turned, &back])
    }

    /// The first two dimensions of `x` and these, from numbers or from the Shape of `x`.
    fn shape_of(&mut self, x: &str, rest: &[i64]) -> String {
        if self.writer.chance(2) {
            return self.writer.ints(&[&[0, -1], rest].concat());
        }
        let shape = self.writer.node("Shape-13", &[x]);
        let (first, last) = (self.writer.ints(&[0]), self.writer.ints(&[1]));
        let b = self.writer.node("Gather-13", &[&shape, &first]);
        let s = self.writer.node("Gather-13", &[&shape, &last]);
        let rest = self.writer.ints(rest);
        self.writer.node("Concat-13 [axis: 0]", &[&b, &s, &rest])
    }

    /// `x·xᵀ·x`, scaled.
    fn scaled_product(&mut self, x: &str) -> String {
        let transposed = self.writer.node("Transpose-13 [perm: [0, 2, 1]]", &[x]);
        let scale = self.writer.number(0.125);
        let product = self.writer.node("MatMul-13", &[x, &transposed]);
        let scaled = self.writer.node("Mul-14", &[&product, &scale]);
        let weights = self.writer.node("Softmax-13 [axis: -1]", &[&scaled]);
        self.writer.node("MatMul-13", &[&weights, x])
    }

    /// Swaps the halves, through operators without effect.
    fn shuffled(&mut self, x: &str) -> String {
        let (a, b) = (self.writer.fresh(), self.writer.fresh());
        self.writer.text.push_str(&format!("  {a}, {b} = Split-2 [axis: 2] ({x})\n"));
        let joined = self.writer.node("Concat-13 [axis: -1]", &[&b, &a]);
        let same = self.writer.node("Identity-14", &[&joined]);
        let zero = self.writer.number(0.0);
        self.writer.node("Add-14", &[&same, &zero])
    }
}
