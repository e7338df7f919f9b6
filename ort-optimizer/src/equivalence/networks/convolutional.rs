//! Networks of convolutions.

use super::Writer;

/// An image: its name, and its shape in a run.
#[derive(Clone)]
struct Image {
    name: String,
    shape: [usize; 4],
}

pub(super) struct Convolutional {
    writer: Writer,
    images: Vec<Image>,
}

impl Convolutional {
    pub(super) fn new(mut writer: Writer) -> Self {
        let channels = [3, 4, 8][writer.rng.index(3)];
        writer.input("x", &[("n", 2), ("", channels), ("h", 6), ("w", 5)]);
        let image = Image { name: "x".to_owned(), shape: [2, channels, 6, 5] };
        Self { writer, images: vec![image] }
    }

    pub(super) fn with_layers(mut self, n_layers: usize) -> String {
        for _ in 0..n_layers {
            let image = self.layer();
            self.writer.ends.push(image.name.clone());
            self.images.push(image);
        }
        if self.writer.chance(3) {
            let y = self.classifier();
            self.writer.ends.push(y);
        }
        self.writer.finished()
    }

    /// One of the images, most often the newest.
    fn any(&mut self) -> Image {
        let last = self.images.len() - 1;
        let index = if self.writer.chance(4) { self.writer.rng.index(last + 1) } else { last };
        self.images[index].clone()
    }

    fn layer(&mut self) -> Image {
        let x = self.any();
        match self.writer.rng.below(19) {
            0..5 => self.convolution(&x),
            5 => self.normalized(&x),
            6 => self.per_channel(&x),
            7 => self.pooled(&x),
            8 => self.excited(&x),
            9 => self.residual(&x),
            10 => self.joined(&x),
            11 => self.padded(&x),
            12 => self.in_nhwc(&x),
            13 => self.split(&x),
            14 => self.resized(&x),
            15 => self.detoured(&x),
            16 => self.cropped(&x),
            17 => self.lifted(&x),
            _ => {
                let name = self.writer.branches(&x.name, "Relu-14", "Neg-13");
                Image { name, ..x }
            }
        }
    }

    fn activated(&mut self, x: Image) -> Image {
        let name = self.writer.activation(&x.name);
        Image { name, ..x }
    }

    /// A convolution that keeps the size of the image, or halves it; maybe with what often follows.
    fn convolution(&mut self, x: &Image) -> Image {
        let mut y = self.plain_convolution(x);
        if self.writer.chance(3) {
            y = self.normalized(&y);
        }
        if self.writer.chance(3) {
            y = self.residual(&y);
        }
        if self.writer.chance(2) { self.activated(y) } else { y }
    }

    fn plain_convolution(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        let kernel = if self.writer.chance(2) { 3 } else { 1 };
        let stride = if h > 2 && w > 2 && self.writer.chance(4) { 2 } else { 1 };
        let (group, m) = match self.writer.rng.below(5) {
            0 => (c, c),
            1 if c % 2 == 0 => (2, 8),
            2 => (1, 16),
            3 => (1, 6),
            _ => (1, 8),
        };
        let pad = kernel / 2;
        let op = format!(
            "Conv-11 [group: {group}, kernel_shape: [{kernel}, {kernel}], \
             pads: [{pad}, {pad}, {pad}, {pad}], strides: [{stride}, {stride}]]"
        );
        let range = if kernel == 3 { [-0.25, 0.25] } else { [-0.5, 0.5] };
        let weights = self.writer.constant(&[m, c / group, kernel, kernel], range);
        let name = if self.writer.chance(2) {
            let bias = self.writer.constant(&[m], [-1.0, 1.0]);
            self.writer.node(&op, &[&x.name, &weights, &bias])
        } else {
            self.writer.node(&op, &[&x.name, &weights])
        };
        Image { name, shape: [n, m, (h - 1) / stride + 1, (w - 1) / stride + 1] }
    }

    fn normalized(&mut self, x: &Image) -> Image {
        Image { name: self.batch_normalization(&x.name, x.shape[1]), ..*x }
    }

    fn batch_normalization(&mut self, x: &str, c: usize) -> String {
        let (scale, bias) =
            (self.writer.constant(&[c], [0.5, 1.5]), self.writer.constant(&[c], [-1.0, 1.0]));
        let (mean, var) =
            (self.writer.constant(&[c], [-1.0, 0.5]), self.writer.constant(&[c], [0.5, 2.0]));
        let inputs = [x, &scale, &bias, &mean, &var];
        self.writer.node("BatchNormalization-15 [epsilon: 0.001]", &inputs)
    }

    fn per_channel(&mut self, x: &Image) -> Image {
        let c = x.shape[1];
        let shapes: [&[usize]; 5] = [&[c, 1, 1], &[1, c, 1, 1], &[], &[1], &[1, 1, 1, 1]];
        let shape = shapes[self.writer.rng.index(shapes.len())];
        let constant = self.writer.constant(shape, [0.5, 1.5]);
        let op = ["Mul-14", "Add-14", "Sub-14", "Div-14", "PRelu-16"][self.writer.rng.index(5)];
        let name = if self.writer.chance(2) && !matches!(op, "Div-14" | "PRelu-16") {
            self.writer.node(op, &[&constant, &x.name])
        } else {
            self.writer.node(op, &[&x.name, &constant])
        };
        Image { name, ..*x }
    }

    fn pooled(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        let (op, shape) = match self.writer.rng.below(4) {
            0 if h > 1 && w > 1 => {
                ("MaxPool-12 [kernel_shape: [2, 2], strides: [2, 2]]", [n, c, h / 2, w / 2])
            }
            1 => ("MaxPool-12 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]]", x.shape),
            2 => (
                "AveragePool-11 [count_include_pad: 1, kernel_shape: [3, 3], pads: [1, 1, 1, 1]]",
                x.shape,
            ),
            _ => ("AveragePool-11 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]]", x.shape),
        };
        Image { name: self.writer.node(op, &[&x.name]), shape }
    }

    /// Squeeze and excitation.
    fn excited(&mut self, x: &Image) -> Image {
        let [n, c, ..] = x.shape;
        let squeezed = if self.writer.chance(2) {
            self.writer.node("GlobalAveragePool-1", &[&x.name])
        } else {
            self.writer.node("ReduceMean-13 [axes: [2, 3], keepdims: 1]", &[&x.name])
        };
        let squeezed = Image { name: squeezed, shape: [n, c, 1, 1] };
        let down = self.writer.constant(&[4, c, 1, 1], [-0.5, 0.5]);
        let up = self.writer.constant(&[c, 4, 1, 1], [-0.5, 0.5]);
        let hidden = self.writer.node("Conv-11", &[&squeezed.name, &down]);
        let hidden = if self.writer.chance(3) {
            let flat = self.writer.node("Squeeze-11 [axes: [-1]]", &[&hidden]);
            let flat = self.writer.node("Relu-14", &[&flat]);
            self.writer.node("Unsqueeze-11 [axes: [3]]", &[&flat])
        } else {
            self.writer.node("Relu-14", &[&hidden])
        };
        let gate = self.writer.node("Conv-11", &[&hidden, &up]);
        let gate = match self.writer.rng.below(3) {
            0 => self.writer.node("Sigmoid-13", &[&gate]),
            1 => self.writer.node("HardSigmoid-6", &[&gate]),
            _ => {
                let clipped = self.writer.shifted_clip(&gate);
                let six = self.writer.number(6.0);
                self.writer.node("Div-14", &[&clipped, &six])
            }
        };
        Image { name: self.writer.node("Mul-14", &[&x.name, &gate]), ..*x }
    }

    /// The sum with a uniform image of its shape.
    fn lifted(&mut self, x: &Image) -> Image {
        let shape = self.writer.node("Shape-15", &[&x.name]);
        let number = self.writer.number(0.5);
        let even = self.writer.node("Expand-13", &[&number, &shape]);
        Image { name: self.writer.node("Add-14", &[&x.name, &even]), ..*x }
    }

    /// The sum with another image of its shape, if there is one.
    fn residual(&mut self, x: &Image) -> Image {
        let is_alike = |image: &&Image| image.shape == x.shape;
        let Some(other) = self.images.iter().rev().find(is_alike).cloned() else {
            return x.clone();
        };
        let op = if self.writer.chance(4) { "Sum-13" } else { "Add-14" };
        Image { name: self.writer.node(op, &[&x.name, &other.name]), ..*x }
    }

    fn joined(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        let is_fit = |image: &&Image| [image.shape[0], image.shape[2], image.shape[3]] == [n, h, w];
        let Some(other) = self.images.iter().find(is_fit).cloned() else { return x.clone() };
        let name = self.writer.node("Concat-13 [axis: 1]", &[&x.name, &other.name]);
        Image { name, shape: [n, c + other.shape[1], h, w] }
    }

    /// A Pad of the spatial axes before a convolution or a pool.
    fn padded(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        let pads = self.writer.ints(&[0, 0, 1, 1, 0, 0, 1, 1]);
        let x = if self.writer.chance(2) { self.activated(x.clone()) } else { x.clone() };
        let padded = if self.writer.chance(3) {
            let value = self.writer.number(1.0);
            self.writer.node("Pad-13", &[&x.name, &pads, &value])
        } else {
            self.writer.node("Pad-13", &[&x.name, &pads])
        };
        let op = match self.writer.rng.below(3) {
            0 => "MaxPool-12 [kernel_shape: [3, 3]]",
            1 => "AveragePool-11 [kernel_shape: [3, 3]]",
            _ => {
                let weights = self.writer.constant(&[8, c, 3, 3], [-0.25, 0.25]);
                let name = self.writer.node("Conv-11", &[&padded, &weights]);
                return Image { name, shape: [n, 8, h, w] };
            }
        };
        Image { name: self.writer.node(op, &[&padded]), ..x }
    }

    /// An operation in NHWC.
    fn in_nhwc(&mut self, x: &Image) -> Image {
        let [n, mut c, h, w] = x.shape;
        let last = self.writer.node("Transpose-13 [perm: [0, 2, 3, 1]]", &[&x.name]);
        let y = if self.writer.chance(2) {
            let weights = self.writer.constant(&[c, 8], [-0.5, 0.5]);
            c = 8;
            let y = self.writer.node("MatMul-13", &[&last, &weights]);
            let bias = self.writer.constant(&[c], [-1.0, 1.0]);
            if self.writer.chance(2) { y } else { self.writer.node("Add-14", &[&y, &bias]) }
        } else {
            let scale = self.writer.constant(&[c], [0.5, 1.5]);
            let scaled = self.writer.node("Mul-14", &[&last, &scale]);
            self.writer.activation(&scaled)
        };
        let name = self.writer.node("Transpose-13 [perm: [0, 3, 1, 2]]", &[&y]);
        Image { name, shape: [n, c, h, w] }
    }

    /// Half of the channels times the other half.
    fn split(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        if c % 2 == 1 {
            return self.activated(x.clone());
        }
        let (a, b) = if self.writer.chance(2) {
            (self.sliced(x, 0, c / 2), self.sliced(x, c / 2, c))
        } else {
            let (a, b) = (self.writer.fresh(), self.writer.fresh());
            let line = format!("  {a}, {b} = Split-2 [axis: 1] ({})\n", x.name);
            self.writer.text.push_str(&line);
            (a, b)
        };
        Image { name: self.writer.node("Mul-14", &[&a, &b]), shape: [n, c / 2, h, w] }
    }

    fn sliced(&mut self, x: &Image, start: usize, end: usize) -> String {
        let [start, end, axis] =
            [start, end, 1].map(|n| self.writer.ints(&[i64::try_from(n).unwrap()]));
        self.writer.node("Slice-13", &[&x.name, &start, &end, &axis])
    }

    fn resized(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        if h * w > 40 {
            return self.pooled(x);
        }
        let scales = self.writer.fresh();
        let line = format!("  {scales} = const float[4] [1, 1, 2, 2]\n");
        self.writer.text.push_str(&line);
        let op = match self.writer.chance(2) {
            true => {
                "Resize-13 [coordinate_transformation_mode: \"asymmetric\", mode: \"nearest\", \
                 nearest_mode: \"floor\"]"
            }
            false => "Resize-13 [coordinate_transformation_mode: \"half_pixel\", mode: \"linear\"]",
        };
        Image { name: self.writer.node(op, &[&x.name, "_", &scales]), shape: [n, c, 2 * h, 2 * w] }
    }

    /// Without the first row and the last column.
    fn cropped(&mut self, x: &Image) -> Image {
        let [n, c, h, w] = x.shape;
        if h < 3 || w < 3 {
            return self.activated(x.clone());
        }
        let (one, end) = (self.writer.ints(&[1]), self.writer.ints(&[i64::MAX]));
        let (zero, last) = (self.writer.ints(&[0]), self.writer.ints(&[-1]));
        let axis = self.writer.ints(&[2]);
        let rows = self.writer.node("Slice-13", &[&x.name, &one, &end, &axis]);
        let name = self.writer.node("Slice-13", &[&rows, &zero, &last, &last]);
        Image { name, shape: [n, c, h - 1, w - 1] }
    }

    /// The same image after nodes that change nothing.
    fn detoured(&mut self, x: &Image) -> Image {
        let name = match self.writer.rng.below(4) {
            0 => self.writer.node("Concat-13 [axis: 1]", &[&x.name]),
            1 => {
                let zeros = self.writer.ints(&[0; 8]);
                self.writer.node("Pad-13", &[&x.name, &zeros])
            }
            2 => {
                let [_, c, h, w] = x.shape.map(|n| i64::try_from(n).unwrap());
                let (rows, shape) = (self.writer.ints(&[-1, w]), self.writer.ints(&[-1, c, h, w]));
                let flat = self.writer.node("Reshape-14", &[&x.name, &rows]);
                self.writer.node("Reshape-14", &[&flat, &shape])
            }
            _ => {
                let wide = self.writer.node("Cast-13 [to: 11]", &[&x.name]);
                let shape = self.writer.node("Shape-13", &[&wide]);
                self.writer.node("Reshape-14", &[&x.name, &shape])
            }
        };
        Image { name, ..*x }
    }

    /// A pool of everything and a product.
    fn classifier(&mut self) -> String {
        let x = self.any();
        let c = x.shape[1];
        let pooled = self.writer.node("GlobalAveragePool-1", &[&x.name]);
        let flat = if self.writer.chance(2) {
            self.writer.node("Flatten-13", &[&pooled])
        } else {
            let shape = self.writer.ints(&[0, -1]);
            self.writer.node("Reshape-14", &[&pooled, &shape])
        };
        let product = self.product(&flat, c);
        match self.writer.rng.below(4) {
            0 => self.writer.node("Softmax-13", &[&product]),
            1 => {
                let factor = self.writer.constant(&[5], [0.5, 1.5]);
                let scaled = self.writer.node("Mul-14", &[&product, &factor]);
                self.writer.node("Add-14", &[&scaled, &factor])
            }
            2 => {
                let (one, two) = (self.writer.number(1.0), self.writer.number(2.0));
                let divisor = self.writer.node("Exp-13", &[&product]);
                let inverse = self.writer.node("Div-14", &[&one, &divisor]);
                self.writer.node("Mul-14", &[&inverse, &two])
            }
            _ => product,
        }
    }

    /// A product of `[n, c]` with a constant, to `[n, 5]`, in one of the ways to write it.
    fn product(&mut self, x: &str, c: usize) -> String {
        let bias = self.writer.constant(&[5], [-1.0, 1.0]);
        match self.writer.rng.below(6) {
            0 => {
                let weights = self.writer.constant(&[5, c], [-0.5, 0.5]);
                let in_nhwc = self.writer.node("Transpose-13", &[x]);
                self.writer.node("Gemm-13 [transA: 1, transB: 1]", &[&in_nhwc, &weights, &bias])
            }
            form => {
                let weights = self.writer.constant(&[c, 5], [-0.5, 0.5]);
                match form {
                    1 => {
                        let product = self.writer.node("Gemm-13", &[x, &weights]);
                        self.writer.node("Sum-13", &[&product, &bias])
                    }
                    2 => {
                        let product = self.writer.node("MatMul-13", &[x, &weights]);
                        self.batch_normalization(&product, 5)
                    }
                    3 => {
                        let product = self.writer.node("Gemm-13", &[x, &weights, &bias]);
                        self.writer.activation(&product)
                    }
                    4 => self.writer.node("Gemm-13", &[x, &weights, &bias]),
                    _ => {
                        let product = self.writer.node("MatMul-13", &[x, &weights]);
                        self.writer.node("Add-14", &[&product, &bias])
                    }
                }
            }
        }
    }
}
