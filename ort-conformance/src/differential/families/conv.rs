//! Convolutions: dense, grouped and depthwise, of one to three dimensions, with strides, dilations and pads,
//! and what comes behind them.

use super::super::net::{Net, Value, list};
use super::epilogue::{epilogue, sum};

/// The attributes of a window along each axis.
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// Before all axes, then behind them.
    pads: Vec<usize>,
}

/// Channels and an image that hold between them at most `most` elements.
fn image(net: &mut Net<'_>, rank: usize, most: usize) -> (usize, Vec<usize>) {
    let channels = net.draw.size(1, 300);
    let mut rest = (most / channels).max(1);
    let mut dims = Vec::new();
    for axis in (0..rank).rev() {
        // Of what is left, an equal part to each axis, more or less.
        let fair = (rest as f64).powf(1.0 / (axis + 1) as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down")]
        let high = (4.0 * fair) as usize;
        let dim = net.draw.size(1, if axis == 0 { rest } else { high.min(rest) });
        rest /= dim;
        dims.push(dim);
    }
    (channels, dims)
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

/// A convolution of an image `[n, channels, …]`.
fn convolved(net: &mut Net<'_>, x: &Value) -> Value {
    let (n, channels, dims) = (x.shape[0], x.shape[1], x.shape[2..].to_vec());
    let window = window(net, &dims);
    let group = groups(net, channels);
    let per_group = channels / group;
    let outputs = window.outputs(&dims);
    let per_filter = n * per_group * window.taps() * outputs.iter().product::<usize>().max(1);
    let most = net.draw.budget() / per_filter.max(1) / group;
    let m = net.draw.size(1, most.clamp(1, (300 / group).max(2)));
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
    let mut y = net.sums(name, shape, terms, [x, &w], bias.as_ref());
    // Transformed filters of 3 or 5 taps: sums of transformed numbers, several times as large.
    y.error *= if window.kernel.iter().any(|size| [3, 5].contains(size)) { 4.0 } else { 1.0 };
    y
}

fn first_image(net: &mut Net<'_>) -> Value {
    let rank = net.draw.pick(&[2, 2, 2, 2, 1, 3]);
    let elements = net.draw.size(10_000, 400_000);
    let (channels, dims) = image(net, rank, elements);
    let n = net.draw.pick(&[1, 1, 1, 2, 3]);
    let shape: Vec<usize> = [n, channels].into_iter().chain(dims).collect();
    net.input(&shape)
}

pub(super) fn convolution(net: &mut Net<'_>) -> Vec<Value> {
    let x = first_image(net);
    let y = convolved(net, &x);
    vec![epilogue(net, y)]
}

/// Two or three convolutions, the last with a sum.
pub(super) fn chain(net: &mut Net<'_>) -> Vec<Value> {
    let mut x = first_image(net);
    for _ in 0..net.draw.between(1, 2) {
        let y = convolved(net, &x);
        x = epilogue(net, y);
    }
    let y = convolved(net, &x);
    let y = sum(net, &y);
    let z = epilogue(net, y.clone());
    if net.draw.one_in(4) { vec![z, x] } else { vec![z] }
}

pub(super) fn transposed(net: &mut Net<'_>) -> Vec<Value> {
    let rank = net.draw.pick(&[2, 2, 2, 1, 3]);
    let elements = net.draw.size(1_000, 200_000);
    let (channels, dims) = image(net, rank, elements);
    let group = groups(net, channels);
    let n = net.draw.pick(&[1, 1, 2]);
    let (mut kernel, mut strides, mut dilations) = (Vec::new(), Vec::new(), Vec::new());
    let (mut pads, mut added, mut outputs) = (vec![0; 2 * rank], Vec::new(), Vec::new());
    for (i, &dim) in dims.iter().enumerate() {
        let (size, stride) = (net.draw.pick(&[1, 2, 3, 4, 5, 7]), net.draw.pick(&[1, 2, 2, 3, 4]));
        let dilation = net.draw.pick(&[1, 1, 1, 2]);
        let reach = (size - 1) * dilation;
        let full = (dim - 1) * stride + reach + 1;
        let before = net.draw.between(0, reach.min(full - 1));
        let behind = net.draw.between(0, reach.min(full - 1 - before));
        let more = net.draw.between(0, stride.max(dilation) - 1);
        (pads[i], pads[rank + i]) = (before, behind);
        outputs.push(full - before - behind + more);
        (kernel.push(size), strides.push(stride), dilations.push(dilation), added.push(more));
    }
    let taps: usize = kernel.iter().product();
    let per_filter = n * channels * taps * dims.iter().product::<usize>();
    let most = net.draw.budget() / per_filter.max(1);
    let size: usize = n * group * outputs.iter().product::<usize>();
    let most = most.min(2_000_000 / size.max(1));
    let m = net.draw.size(1, most.clamp(1, (300 / group).max(2)));
    let shape: Vec<usize> = [n, channels].into_iter().chain(dims).collect();
    let x = net.input(&shape);
    let shape: Vec<usize> = [channels, m].into_iter().chain(kernel).collect();
    let terms = channels / group * taps;
    let w = net.weights(&shape, terms);
    let bias = net.draw.one_in(2).then(|| net.scaled('w', &[m * group], 1));
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
    let shape = [n, m * group].into_iter().chain(outputs).collect();
    let y = net.sums(name, shape, terms, [&x, &w], bias.as_ref());
    vec![epilogue(net, y)]
}
