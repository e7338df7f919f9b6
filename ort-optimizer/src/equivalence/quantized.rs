//! Quantized networks through all passes. Scales are powers of two and numbers small, so that floats only round where
//! they are quantized: graphs of floats and graphs of quantized values are both exact. Zero points are even, since
//! some integer operators round halves after adding the zero point.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect;
use ort_testing::Rng;
use proptest::prelude::*;

use super::{optimized, parse};
use crate::interpreter::run;
use crate::testing::inputs;
use crate::{Level, Options};

/// Quantized values `[1, channels, 4, 4]`: the name of a value, and of its scale.
#[derive(Clone)]
struct Image {
    name: String,
    scale: String,
    channels: usize,
}

/// A random network that is being written.
struct Writer {
    rng: Rng,
    text: String,
    n_values: usize,
    images: Vec<Image>,
}

impl Writer {
    fn network(n_layers: usize, seed: u64) -> String {
        let mut rng = Rng::new(seed);
        let (dtype, zeros) = [("uint8", [0, 128, 4]), ("int8", [0, -128, 6])][rng.index(2)];
        let zero = zeros[rng.index(3)];
        let (text, images) = (format!("zero = const {dtype}[] {zero}\n"), Vec::new());
        let mut writer = Self { rng, text, n_values: 0, images };
        let scale = writer.scale();
        let x = writer.quantized("x", &scale, 2);
        writer.images.push(x);
        for _ in 0..n_layers {
            let layer = writer.layer();
            writer.images.push(layer);
        }
        let y = writer.head();
        format!("graph(x: float[1,2,4,4], c: bool[4]) -> ({y}) {{\n{}}}", writer.text)
    }

    fn fresh(&mut self) -> String {
        self.n_values += 1;
        format!("v{}", self.n_values)
    }

    fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        let name = self.fresh();
        writeln!(self.text, "{name} = {op} ({})", inputs.join(", ")).unwrap();
        name
    }

    /// A constant of small whole multiples of `unit`.
    fn constant(&mut self, dtype: &str, shape: &[usize], unit: f64) -> String {
        let name = self.fresh();
        let n = shape.iter().product();
        let mut draw = || unit * f64::from(i32::try_from(self.rng.below(64)).unwrap() - 32);
        let numbers: Vec<String> = (0..n).map(|_| draw().to_string()).collect();
        writeln!(self.text, "{name} = const {dtype}{shape:?} [{}]", numbers.join(", ")).unwrap();
        name
    }

    fn scale(&mut self) -> String {
        let (name, scale) = (self.fresh(), [0.0625, 0.03125, 0.015625][self.rng.index(3)]);
        writeln!(self.text, "{name} = const float[] {scale}").unwrap();
        name
    }

    fn quantized(&mut self, value: &str, scale: &str, channels: usize) -> Image {
        let name = self.node("QuantizeLinear-13", &[value, scale, "zero"]);
        Image { name, scale: scale.to_owned(), channels }
    }

    fn value(&mut self, image: &Image) -> String {
        self.node("DequantizeLinear-13", &[&image.name, &image.scale, "zero"])
    }

    fn layer(&mut self) -> Image {
        let last = self.images.len() - 1;
        let x = self.images[last].clone();
        let other = self.images[self.rng.index(last + 1)].clone();
        let (a, same) = (self.value(&x), x.scale.clone());
        let scale = if self.rng.below(2) == 0 { self.scale() } else { same.clone() };
        let (op, scale) = match self.rng.below(9) {
            0 | 1 => return self.convolution(&a, x.channels),
            2 if other.channels == x.channels => {
                let b = self.value(&other);
                let op = ["Add-13", "Mul-13"][self.rng.index(2)];
                (self.node(op, &[&a, &b]), scale)
            }
            3 => (self.node("MaxPool-12 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]]", &[&a]), same),
            4 => (self.node("Transpose-13 [perm: [0, 1, 3, 2]]", &[&a]), scale),
            5 => (self.node("LeakyRelu-6 [alpha: 0.5]", &[&a]), scale),
            6 => {
                let low = self.constant("float", &[1], 64.0);
                (self.node("Where-9", &["c", &a, &low]), scale)
            }
            7 if x.channels + other.channels <= 8 => {
                let b = self.value(&other);
                let joined = self.node("Concat-13 [axis: 1]", &[&a, &b]);
                return self.quantized(&joined, &scale, x.channels + other.channels);
            }
            _ => (a, scale),
        };
        self.quantized(&op, &scale, x.channels)
    }

    /// A convolution with what may be between it and its quantized values.
    fn convolution(&mut self, x: &str, channels: usize) -> Image {
        let n = [2, 4][self.rng.index(2)];
        let weights = self.constant("int8", &[n, channels, 3, 3], 1.0);
        let (scale, y_scale) = (self.scale(), self.scale());
        let w = self.node("DequantizeLinear-13", &[&weights, &scale]);
        let bias = self.constant("float", &[n], 0.25);
        let mut y = self.node("Conv-11 [pads: [1, 1, 1, 1]]", &[x, &w, &bias]);
        match self.rng.below(3) {
            0 => y = self.node("Relu-13", &[&y]),
            1 => y = self.node("Clip-6 [min: -16.0, max: 16.0]", &[&y]),
            _ => {}
        }
        self.quantized(&y, &y_scale, n)
    }

    fn head(&mut self) -> String {
        let x = self.images[self.images.len() - 1].clone();
        let a = self.value(&x);
        let mean = self.node("GlobalAveragePool-1", &[&a]);
        let scale = self.scale();
        let flat = self.node("Flatten-13", &[&mean]);
        let flat = self.quantized(&flat, &scale, x.channels);
        let a = self.value(&flat);
        let table = self.constant("int8", &[x.channels, 3], 1.0);
        let b = self.node("DequantizeLinear-13", &[&table, &scale]);
        match self.rng.below(3) {
            0 => self.node("MatMul-13", &[&a, &b]),
            1 => {
                let product = self.node("MatMul-13", &[&a, &b]);
                self.quantized(&product, &scale, 3).name
            }
            _ => {
                let bias = self.constant("float", &[3], 0.25);
                self.node("Gemm-13", &[&a, &b, &bias])
            }
        }
    }
}

proptest! {
    #[test]
    fn quantized_networks_keep_every_bit(
        n_layers in 0_usize..8, seed in any::<u64>(), level in 1_usize..5,
        stop_after in prop::option::of(0_usize..24)
    ) {
        let text = Writer::network(n_layers, seed);
        let before = parse(&text);
        let options = Options { level: Level::ALL[level], stop_after, ..Options::default() };
        let (after, report) = optimized(&text, &options);
        let inputs = inputs(&before, seed, &[]);
        let (expected, found) = (run(&before, &inputs), run(&after, &inputs));
        prop_assert_eq!(expected, found, "{:?}\n{}\n{}", report.last, before, after);
    }
}

/// Without matches for the passes, the comparison above would test nothing.
#[test]
fn quantized_networks_have_something_for_the_passes() {
    let mut applied = BTreeMap::new();
    for seed in 0..60 {
        let (_, report) = optimized(&Writer::network(6, seed), &Options::default());
        for pass in report.passes {
            *applied.entry(pass.name).or_insert(0) += pass.applied;
        }
    }
    for (name, place) in super::ELSEWHERE {
        assert!(*place != "quantized" || applied[name] > 0, "{name} finds nothing");
    }
}

const NETWORK: &str = "graph(x: float[1,2,6,6]) -> (y, z) {
    s = const float[] 0.015625
    t = const float[] 0.0625
    u = const uint8[] 128
    zero = const uint8[] 0
    w = const float[4,2,3,3] fill -0.5
    ws = const float[4] [0.25, 0.5, 0.125, 0.25]
    wz = const int8[4] fill 0
    wb = const float[4] [0.5, 8, 1.25, -1]
    m = const int8[3,4] [1, -2, 3, 4, 5, 6, 7, -8, 9, 10, 11, 12]
    mb = const float[3] [0.5, -0.125, 2]
    shape = const int64[2] [1, -1]
    table = const int8[4,2] [1, -2, 3, 4, 5, 6, 7, -8]
    row = const int64[] 2
    xq = QuantizeLinear-13 (x, s, u)
    x1 = DequantizeLinear-13 (xq, s, u)
    wq = QuantizeLinear-13 [axis: 0] (w, ws, wz)
    w1 = DequantizeLinear-13 [axis: 0] (wq, ws, wz)
    a = Conv-11 [pads: [1, 1, 1, 1]] (x1, w1, wb)
    b = Relu-13 (a)
    bq = QuantizeLinear-13 (b, t, zero)
    b1 = DequantizeLinear-13 (bq, t, zero)
    c = MaxPool-12 [kernel_shape: [3, 3], strides: [1, 1]] (b1)
    cq = QuantizeLinear-13 (c, t, zero)
    c1 = DequantizeLinear-13 (cq, t, zero)
    c2 = DequantizeLinear-13 (cq, t, zero)
    d = Add-13 (c1, c2)
    dq = QuantizeLinear-13 (d, t, zero)
    d1 = DequantizeLinear-13 (dq, t, zero)
    e = GlobalAveragePool-1 (d1)
    f = Reshape-13 (e, shape)
    fq = QuantizeLinear-13 (f, t, zero)
    f1 = DequantizeLinear-13 (fq, t, zero)
    m1 = DequantizeLinear-13 (m, s)
    g = Gemm-13 [transB: 1] (f1, m1, mb)
    gq = QuantizeLinear-13 (g, t, u)
    y = DequantizeLinear-13 (gq, t, u)
    values = DequantizeLinear-13 (table, s)
    h = Gather-13 (values, row)
    z = Neg-13 (h)
}";

#[test]
fn a_quantized_network_computes_with_codes() {
    let before = parse(NETWORK);
    let (after, _) = optimized(NETWORK, &Options { level: Level::Extended, ..Options::default() });
    for seed in 0..3 {
        let inputs = inputs(&before, seed, &[]);
        assert_eq!(run(&before, &inputs), run(&after, &inputs), "{after}");
    }
    expect![[r#"
        graph(x: float[1,2,6,6]) -> (y, z) {
          s = const float[] 0.015625
          t = const float[] 0.0625
          u = const uint8[] 128
          zero = const uint8[] 0
          ws = const float[4] [0.25, 0.5, 0.125, 0.25]
          wz = const int8[4] fill 0
          m = const int8[3,4] [1, -2, 3, 4, 5, 6, 7, -8, 9, 10, 11, 12]
          shape = const int64[2] [1, -1]
          wq = const int8[4,2,3,3] #29fd42c37e7086d3
          zero_point = const int8[] 0
          z = const float[2] [-0.078125, -0.09375]
          bias_4 = const int32[4] [128, 1024, 640, -256]
          bias_8 = const int32[3] [512, -128, 2048]
          xq = QuantizeLinear-13 (x, s, u)
          bq = QLinearConv-10 [pads: [1, 1, 1, 1]] (xq, s, u, wq, ws, wz, t, zero, bias_4)
          cq = MaxPool-12 [kernel_shape: [3, 3], strides: [1, 1]] (bq)
          dq = com.microsoft:QLinearAdd-1 (cq, t, zero, cq, t, zero, t, zero)
          value = com.microsoft:QLinearGlobalAveragePool-1 (dq, t, zero, t, zero)
          fq = Reshape-13 (value, shape)
          gq = com.microsoft:QGemm-1 [alpha: 1.0, transA: 0, transB: 1] (fq, t, zero, m, s, zero_point, bias_8, t, u)
          y = DequantizeLinear-13 (gq, t, u)
        }"#]].assert_eq(&after.to_string());
}
