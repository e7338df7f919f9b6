//! Random networks whose layers are large enough to be parallelized.

use std::fmt::Write as _;

use ort_testing::Rng;

/// Batch, channels, height and width of all values between two layers.
pub(crate) const SHAPE: [usize; 4] = [2, 32, 28, 28];

/// The text of a network of layers, of which no two consecutive ones are the same.
pub(crate) fn network(seed: u64, n_layers: usize) -> String {
    let mut writer = Writer { rng: Rng::new(seed), text: String::new(), n_values: 0 };
    let mut y = "x".to_owned();
    let mut last = usize::MAX;
    for _ in 0..n_layers {
        let kind = (last.wrapping_add(1) + writer.rng.index(LAYERS.len() - 1)) % LAYERS.len();
        y = LAYERS[kind](&mut writer, &y);
        last = kind;
    }
    let [n, c, h, w] = SHAPE;
    format!("graph(x: float[{n},{c},{h},{w}]) -> ({y}) {{\n{}}}", writer.text)
}

/// Writes a layer with the given input; returns its output, of the same shape.
type Layer = fn(&mut Writer, &str) -> String;

const LAYERS: &[Layer] = &[
    |writer, x| {
        let (w, bias) = (writer.constant(&[32, 32, 3, 3]), writer.constant(&[32]));
        writer.node("Conv-11 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]]", &[x, &w, &bias])
    },
    |writer, x| {
        let w = writer.constant(&[32, 32, 1, 1]);
        let y = writer.node("Conv-11 [kernel_shape: [1, 1]]", &[x, &w]);
        writer.node("HardSwish-14", &[&y])
    },
    |writer, x| {
        let w = writer.constant(&[32, 1, 5, 5]);
        let pads = "pads: [2, 2, 2, 2]";
        writer.node(&format!("Conv-11 [group: 32, kernel_shape: [5, 5], {pads}]"), &[x, &w])
    },
    |writer, x| {
        let w = writer.constant(&[32, 32, 3, 3]);
        let attributes = "kernel_shape: [3, 3], pads: [1, 1, 1, 1]";
        writer.node(&format!("ConvTranspose-11 [{attributes}]"), &[x, &w])
    },
    |writer, x| {
        let attributes = "kernel_shape: [3, 3], pads: [1, 1, 1, 1]";
        let (most, mean) = (
            writer.node(&format!("MaxPool-12 [{attributes}]"), &[x]),
            writer.node(&format!("AveragePool-11 [{attributes}]"), &[x]),
        );
        writer.node("Sub-14", &[&most, &mean])
    },
    |writer, x| {
        let axis = [-1, 1, 2][writer.rng.index(3)];
        writer.node(&format!("Softmax-13 [axis: {axis}]"), &[x])
    },
    |writer, x| {
        let axes = ["[2, 3]", "[1]", "[-1]"][writer.rng.index(3)];
        let mean = writer.node(&format!("ReduceMean-13 [axes: {axes}]"), &[x]);
        let gate = writer.node("Sigmoid-13", &[&mean]);
        writer.node("Mul-14", &[x, &gate])
    },
    |writer, x| {
        let transposed = writer.node("Transpose-13 [perm: [0, 1, 3, 2]]", &[x]);
        let product = writer.node("MatMul-13", &[x, &transposed]);
        writer.node("Tanh-13", &[&product])
    },
    |writer, x| {
        let (w, bias) = (writer.constant(&[28, 28]), writer.constant(&[28]));
        let rows = writer.reshaped(x, &[1792, 28]);
        let y = writer.node("Gemm-13 [transB: 1]", &[&rows, &w, &bias]);
        writer.reshaped(&y, &SHAPE)
    },
    |writer, x| {
        let (w, r) = (writer.constant(&[2, 56, 28]), writer.constant(&[2, 56, 14]));
        let steps = writer.reshaped(x, &[28, 64, 28]);
        let attributes = "hidden_size: 14, direction: \"bidirectional\"";
        let y = writer.node(&format!("LSTM-14 [{attributes}]"), &[&steps, &w, &r]);
        writer.reshaped(&y, &SHAPE)
    },
    |writer, x| {
        let (scale, bias) = (writer.constant(&[28]), writer.constant(&[28]));
        writer.node("LayerNormalization-17 [axis: -1]", &[x, &scale, &bias])
    },
    |writer, x| {
        let column = writer.constant(&[32, 1, 1]);
        let sum = writer.node("Add-14", &[x, &column]);
        let wave = writer.node("Erf-13", &[&sum]);
        writer.node("Add-14", &[&wave, x])
    },
];

/// The text of a graph under construction.
struct Writer {
    rng: Rng,
    text: String,
    n_values: usize,
}

impl Writer {
    fn fresh(&mut self) -> String {
        self.n_values += 1;
        format!("v{}", self.n_values)
    }

    fn constant(&mut self, shape: &[usize]) -> String {
        let elements = self.rng.uniforms(shape.iter().product());
        let name = self.fresh();
        writeln!(self.text, "  {name} = const float{shape:?} {elements:?}").unwrap();
        name
    }

    fn reshaped(&mut self, x: &str, shape: &[usize]) -> String {
        let name = self.fresh();
        writeln!(self.text, "  {name} = const int64[{}] {shape:?}", shape.len()).unwrap();
        self.node("Reshape-14", &[x, &name])
    }

    /// A node with one output: `op` is the operator, its version and its attributes.
    fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        let name = self.fresh();
        writeln!(self.text, "  {name} = {op} ({})", inputs.join(", ")).unwrap();
        name
    }
}
