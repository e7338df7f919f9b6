//! Convolutions: dense, grouped and depthwise, of one to three dimensions, with strides, dilations and pads,
//! and what follows them.

use super::super::net::{Net, ROUNDING, Value, list};
use super::epilogue::{epilogue, sum};

/// The attributes of a window along each axis.
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// At the begin of all axes, then at their ends.
    pads: Vec<usize>,
}

/// A number of channels: log-uniform, or a multiple of the block size.
fn channels(net: &mut Net<'_>, most: usize) -> usize {
    match net.draw.between(0, 3) {
        0 => net.draw.size(1, most),
        1 | 2 => net.draw.between(1, most),
        _ => (8 * net.draw.between(1, most.div_ceil(8))).min(most),
    }
}

/// An image of at most `most` positions.
fn image(net: &mut Net<'_>, rank: usize, most: usize) -> Vec<usize> {
    let mut rest = most.max(1);
    let mut dims = Vec::new();
    for axis in (0..rank).rev() {
        // Each axis gets about an equal share of what is left.
        let fair = (rest as f64).powf(1.0 / (axis + 1) as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down")]
        let high = (4.0 * fair) as usize;
        let dim = net.draw.size(1, if axis == 0 { rest } else { high.min(rest) });
        rest /= dim;
        dims.push(dim);
    }
    dims
}

/// The sizes of a convolution that do not depend on its image.
struct Sizes {
    /// Channels of the image.
    channels: usize,
    /// Channels of the result.
    filters: usize,
    group: usize,
    /// Elements of a kernel.
    taps: usize,
}

impl Sizes {
    /// Channels of both sides, for `taps` per kernel.
    fn new(net: &mut Net<'_>, taps: usize) -> Self {
        let (of_x, of_y) = (channels(net, 200), channels(net, 200));
        match net.draw.between(0, 5) {
            0..=3 => Self { channels: of_x, filters: of_y, group: 1, taps },
            4 => {
                let each = net.draw.pick(&[1, 1, 2]);
                Self { channels: of_x, filters: each * of_x, group: of_x, taps }
            }
            _ => {
                let group = net.draw.pick(&[2, 3, 4, 7]);
                let each = |n: usize| n.div_ceil(group);
                Self { channels: group * each(of_x), filters: group * each(of_y), group, taps }
            }
        }
    }

    /// The most positions of an image for which the work is within the budget, and no tensor too large.
    fn positions(&self, net: &mut Net<'_>) -> usize {
        let each = self.channels * self.filters / self.group * self.taps;
        let largest = self.channels.max(self.filters);
        let most = (net.draw.budget() / each.max(1)).min(1_000_000 / largest);
        // Tensors of fewer than 10^4 elements are not cut into strips.
        let least = (10_000 / largest).clamp(1, most.max(1));
        net.draw.size(least, most.max(1))
    }
}

/// A window that fits into the image.
fn window(net: &mut Net<'_>, dims: &[usize]) -> Window {
    let is_plain = net.draw.one_in(3);
    let common = net.draw.pick(&[1, 3, 2, 5, 7]);
    let (mut kernel, mut strides, mut dilations) = (Vec::new(), Vec::new(), Vec::new());
    let mut pads = vec![0; 2 * dims.len()];
    for (i, &dim) in dims.iter().enumerate() {
        let size = if is_plain { common } else { net.draw.pick(&[1, 3, 2, 4, 5, 7, 9]) }.min(dim);
        let dilation = if is_plain { 1 } else { net.draw.pick(&[1, 1, 1, 2, 3]) };
        let dilation = if (size - 1) * dilation < dim { dilation } else { 1 };
        let reach = (size - 1) * dilation;
        let (before, behind) = match is_plain {
            true => (reach / 2, reach / 2),
            false => (net.draw.between(0, reach), net.draw.between(0, reach)),
        };
        (pads[i], pads[dims.len() + i]) = (before, behind);
        kernel.push(size);
        dilations.push(dilation);
        strides.push(net.draw.pick(&[1, 1, 1, 2, 2, 3, 4]));
    }
    Window { kernel, strides, dilations, pads }
}

impl Window {
    fn attrs(&self, group: usize) -> String {
        format!(
            "[group: {group}, kernel_shape: [{}], strides: [{}], dilations: [{}], pads: [{}]]",
            list(&self.kernel),
            list(&self.strides),
            list(&self.dilations),
            list(&self.pads)
        )
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    fn outputs(&self, dims: &[usize]) -> Vec<usize> {
        let along = |(i, &dim): (usize, &usize)| {
            let padded = dim + self.pads[i] + self.pads[dims.len() + i];
            (padded - (self.kernel[i] - 1) * self.dilations[i] - 1) / self.strides[i] + 1
        };
        dims.iter().enumerate().map(along).collect()
    }
}

/// Groups of `channels`.
fn groups(net: &mut Net<'_>, channels: usize) -> usize {
    match net.draw.between(0, 5) {
        0..=2 => 1,
        3 | 4 => channels,
        _ => {
            let divisors: Vec<usize> =
                (1..=channels).filter(|&n| channels.is_multiple_of(n)).collect();
            net.draw.pick(&divisors)
        }
    }
}

/// A convolution of an image `[n, channels, …]`, of these sizes or within the budget.
fn convolved(net: &mut Net<'_>, x: &Value, sizes: Option<&Sizes>) -> Value {
    let (n, channels, dims) = (x.shape[0], x.shape[1], x.shape[2..].to_vec());
    let window = window(net, &dims);
    let outputs = window.outputs(&dims);
    let (group, m) = match sizes {
        Some(sizes) => (sizes.group, sizes.filters / sizes.group),
        None => {
            let group = groups(net, channels);
            let per_filter =
                n * channels / group * window.taps() * outputs.iter().product::<usize>();
            let most = net.draw.budget() / 2 / per_filter.max(1) / group;
            (group, net.draw.size(1, most.clamp(1, (300 / group).max(2))))
        }
    };
    let per_group = channels / group;
    let mut shape = vec![m * group, per_group];
    shape.extend(&window.kernel);
    let terms = per_group * window.taps();
    let w = net.weights(&shape, terms);
    let bias = net.draw.one_in(2).then(|| net.scaled('w', &[m * group], 1));
    let mut inputs = vec![x.name.as_str(), w.name.as_str()];
    inputs.extend(bias.iter().map(|bias| bias.name.as_str()));
    let op = format!("Conv-11 {}", window.attrs(group));
    let name = net.node(&op, &inputs);
    let shape = [n, m * group].into_iter().chain(outputs).collect();
    let mut y = Value::sums(name, shape, (terms, [x, &w]), bias.as_ref());
    // Transformed filters of 3 or 5 taps: sums of transformed numbers, several times as large.
    y.error *= if window.kernel.iter().any(|size| [3, 5].contains(size)) { 4.0 } else { 1.0 };
    y
}

pub(super) fn convolution(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 2, 2, 1, 3]);
    // About as many taps as the window will have.
    let sizes = Sizes::new(net, [3, 9, 12][rank - 1]);
    let most = sizes.positions(net);
    let dims = image(net, rank, most);
    let n = net.draw.pick(&[1, 1, 1, 2, 3]);
    let shape: Vec<usize> = [n, sizes.channels].into_iter().chain(dims).collect();
    let x = net.input(&shape);
    let y = convolved(net, &x, Some(&sizes));
    vec![epilogue(net, y)]
}

/// Two or three convolutions, the last with a sum.
pub(super) fn chain(net: &mut Net<'_>) -> Vec<Value> {
    let (of_x, rank) = (channels(net, 64), net.draw.pick(&[2, 2, 2, 1]));
    let most = net.draw.size(10_000, 200_000) / of_x;
    let dims = image(net, rank, most);
    let shape: Vec<usize> = [1, of_x].into_iter().chain(dims).collect();
    let mut x = net.input(&shape);
    for _ in 0..net.draw.between(1, 2) {
        let y = convolved(net, &x, None);
        x = epilogue(net, y);
    }
    let y = convolved(net, &x, None);
    let y = sum(net, &y);
    let z = epilogue(net, y.clone());
    if net.draw.one_in(4) { vec![z, x] } else { vec![z] }
}

pub(super) fn transposed(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 2, 1, 3]);
    let is_even = net.draw.one_in(2);
    let common = (net.draw.pick(&[2, 3, 4, 5]), net.draw.pick(&[1, 2, 3, 4]));
    let (mut kernel, mut strides, mut dilations) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rank {
        let own = (net.draw.pick(&[1, 2, 3, 4, 5, 7]), net.draw.pick(&[1, 2, 2, 3, 4]));
        let (size, stride) = if is_even { common } else { own };
        kernel.push(size);
        strides.push(stride);
        dilations.push(if is_even { 1 } else { net.draw.pick(&[1, 1, 1, 2]) });
    }
    let taps: usize = kernel.iter().product();
    let sizes = Sizes::new(net, taps);
    let most = sizes.positions(net);
    // The result is larger than the image.
    let most = most.min(1_500_000 / sizes.filters / strides.iter().product::<usize>()).max(1);
    let dims = image(net, rank, most);
    let (mut pads, mut added, mut outputs) = (vec![0; 2 * rank], Vec::new(), Vec::new());
    for (i, &dim) in dims.iter().enumerate() {
        let reach = (kernel[i] - 1) * dilations[i];
        let full = (dim - 1) * strides[i] + reach + 1;
        let before = if is_even { 0 } else { net.draw.between(0, reach.min(full - 1)) };
        let behind = net.draw.between(0, reach.min(full - 1 - before));
        let more = if is_even { 0 } else { net.draw.between(0, strides[i].max(dilations[i]) - 1) };
        (pads[i], pads[rank + i]) = (before, behind);
        outputs.push(full - before - behind + more);
        added.push(more);
    }
    let Sizes { channels, filters, group, .. } = sizes;
    let shape: Vec<usize> = [1, channels].into_iter().chain(dims).collect();
    let x = net.input(&shape);
    let shape: Vec<usize> = [channels, filters / group].into_iter().chain(kernel).collect();
    let terms = channels / group * taps;
    let w = net.weights(&shape, terms);
    let bias = net.draw.one_in(2).then(|| net.scaled('w', &[filters], 1));
    let mut inputs = vec![x.name.as_str(), w.name.as_str()];
    inputs.extend(bias.iter().map(|bias| bias.name.as_str()));
    let op = format!(
        "ConvTranspose-11 [group: {group}, strides: [{}], dilations: [{}], pads: [{}], output_padding: [{}]]",
        list(&strides),
        list(&dilations),
        list(&pads),
        list(&added)
    );
    let name = net.node(&op, &inputs);
    let shape = [1, filters].into_iter().chain(outputs).collect();
    let y = Value::sums(name, shape, (terms, [&x, &w]), bias.as_ref());
    vec![epilogue(net, y)]
}

/// Windows whose taps are moved by less than a pixel, and between pixels.
pub(super) fn deformed(net: &mut Net<'_>) -> Vec<Value> {
    let (n, group, parts) = (net.draw.between(1, 2), net.draw.size(1, 3), net.draw.size(1, 3));
    // Channels are a multiple of both.
    let c = group * parts * net.draw.size(1, 8);
    let m = group * net.draw.size(1, 20);
    let [kh, kw] = [(); 2].map(|()| net.draw.pick(&[3, 1, 2]));
    let [height, width] = [(); 2].map(|()| net.draw.size(4, 50));
    let stride = net.draw.between(1, 2);
    let rows = [height - kh, width - kw].map(|room| room / stride + 1);
    let n_terms = c / group * kh * kw;
    let x = net.input(&[n, c, height, width]);
    let w = net.weights(&[m, c / group, kh, kw], n_terms);
    let offset = net.input(&[n, 2 * parts * kh * kw, rows[0], rows[1]]);
    let op = format!(
        "DeformConv-22 [kernel_shape: [{kh}, {kw}], strides: [{stride}, {stride}], \
         group: {group}, offset_group: {parts}]"
    );
    let name = net.node(&op, &[&x.name, &w.name, &offset.name]);
    // The weights of four neighbours are rounded.
    let x = Value { error: 4.0 * ROUNDING, ..x };
    vec![Value::sums(name, vec![n, m, rows[0], rows[1]], (n_terms, [&x, &w]), None)]
}
