//! Resize and Upsample: every element of the result is a sum over the input, weighted by position.
//!
//! Positions are computed in float32, as the operator specifies, so that ties are resolved alike.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::{counts, signed};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Resize", versions: &[10, 11, 13, 18, 19], draw: resize },
    Property { domain: "", name: "Upsample", versions: &[1, 7, 9, 10], draw: upsample },
];

/// How elements are weighted.
#[derive(Clone)]
struct Rule {
    mode: &'static str,
    nearest: &'static str,
    coordinates: &'static str,
    cubic_a: f32,
    excludes_outside: bool,
    has_antialias: bool,
    extrapolation: f32,
}

/// One axis: `n` elements become `m`.
#[derive(Clone, Copy)]
struct Axis {
    n: usize,
    m: usize,
    scale: f32,
    region: (f32, f32),
}

#[expect(clippy::cast_precision_loss, reason = "dimensions are small")]
fn float(n: usize) -> f32 {
    n as f32
}

impl Axis {
    /// As many elements as fit into a length.
    fn new(n: usize, scale: f32, length: f32) -> Self {
        let m = (1..).take_while(|&m| float(m) <= length).count();
        Self { n, m, scale, region: (0.0, 1.0) }
    }

    /// Whether it does not change.
    fn is_kept(&self, rule: &Rule) -> bool {
        self.scale == 1.0 && (rule.coordinates != "tf_crop_and_resize" || self.region == (0.0, 1.0))
    }

    /// The input coordinate of element `o` of the result.
    fn place(&self, o: usize, rule: &Rule) -> f32 {
        let (n, m, o, scale) = (float(self.n), float(self.m), float(o), self.scale);
        let half_pixel = (o + 0.5) / scale - 0.5;
        let (start, end) = self.region;
        match rule.coordinates {
            "half_pixel" => half_pixel,
            "half_pixel_symmetric" => n / 2.0 * (1.0 - m / (n * scale)) + (o + 0.5) / scale - 0.5,
            "pytorch_half_pixel" => {
                if m > 1.0 {
                    half_pixel
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if m > 1.0 {
                    o * (n - 1.0) / (n * scale - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => o / scale,
            "tf_half_pixel_for_nn" => (o + 0.5) / scale,
            _ if m > 1.0 => start * (n - 1.0) + o * (end - start) * (n - 1.0) / (m - 1.0),
            _ => 0.5 * (start + end) * (n - 1.0),
        }
    }

    /// The weight of each element of the input in element `o` of the result; `None` if it is outside and
    /// extrapolated.
    fn weights(&self, o: usize, rule: &Rule) -> Option<Vec<f64>> {
        let mut weights = vec![0.0; self.n];
        if self.is_kept(rule) {
            weights[o] = 1.0;
            return Some(weights);
        }
        let place = self.place(o, rule);
        if rule.coordinates == "tf_crop_and_resize" && !(0.0..=float(self.n - 1)).contains(&place) {
            return None;
        }
        let place = f64::from(place);
        let stretch = if rule.has_antialias { f64::from(self.scale.min(1.0)) } else { 1.0 };
        let n = signed(self.n);
        // Filters reach at most 8 positions: two of a quarter.
        for position in -10..n + 10 {
            let distance = (f64::from(i32::try_from(position).unwrap()) - place) * stretch;
            let weight = match rule.mode {
                "nearest" => {
                    f64::from(u8::from(nearest(place, self.scale, rule.nearest) == position))
                }
                "cubic" => cubic(distance.abs(), rule.cubic_a.into()),
                _ => (1.0 - distance.abs()).max(0.0),
            };
            if (0..n).contains(&position) || !rule.excludes_outside {
                weights[usize::try_from(position.clamp(0, n - 1)).unwrap()] += weight;
            }
        }
        if rule.has_antialias || rule.excludes_outside {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        Some(weights)
    }
}

/// The position nearest to a place.
fn nearest(place: f64, scale: f32, mode: &str) -> i64 {
    let nearest = match mode {
        "round_prefer_floor" => (place - 0.5).ceil(),
        "round_prefer_ceil" => (place + 0.5).floor(),
        "ceil" => place.ceil(),
        // Before the attribute existed.
        "simple" if scale < 1.0 => place.ceil(),
        _ => place.floor(),
    };
    ort_tensor::Number::from_f64(nearest)
}

/// The filter of cubic convolution (Keys 1981).
pub(super) fn cubic(t: f64, a: f64) -> f64 {
    match t {
        ..=1.0 => (a + 2.0) * t.powi(3) - (a + 3.0) * t.powi(2) + 1.0,
        ..2.0 => a * t.powi(3) - 5.0 * a * t.powi(2) + 8.0 * a * t - 4.0 * a,
        _ => 0.0,
    }
}

/// A node that resizes `x` to these axes.
fn resizing(x: &Tensor, axes: Vec<Axis>, rule: Rule) -> Sample {
    let dtype = x.dtype();
    let cells = Array::of(x);
    Sample::new(&[x], move || {
        let shape: Vec<_> = axes.iter().map(|axis| axis.m).collect();
        let tables: Vec<Vec<_>> =
            axes.iter().map(|axis| (0..axis.m).map(|o| axis.weights(o, &rule)).collect()).collect();
        let y = Array::from_fn(&shape, |index| {
            let weights = index.iter().zip(&tables).map(|(&o, table)| table[o].as_deref());
            let weights: Option<Vec<&[f64]>> = weights.collect();
            match weights {
                None if rule.extrapolation == 0.0 => Cell::zero(dtype),
                None => whole(dtype, rule.extrapolation.into(), f64::trunc),
                Some(weights) if rule.mode == "nearest" => {
                    let place = weights.iter().map(|axis| axis.iter().position(|w| *w == 1.0));
                    cells.at(&place.collect::<Option<Vec<_>>>().unwrap()).clone()
                }
                // Plain linear sampling truncates integers.
                Some(weights) if rule.mode == "cubic" => {
                    whole(dtype, sum(&cells, &weights, &mut vec![]), f64::round_ties_even)
                }
                Some(weights) => whole(dtype, sum(&cells, &weights, &mut vec![]), f64::trunc),
            }
        });
        // In float64, sums of at most 4⁶ terms in another order, mostly positive; shorter types round once.
        let ulps = if rule.mode == "nearest" {
            0.0
        } else if dtype == DType::F64 {
            4096.0
        } else {
            1.0
        };
        Expected::near(dtype, y, ulps)
    })
}

/// `Σ weight·x` over all axes from `place.len()` on.
pub(super) fn sum(x: &Array, weights: &[&[f64]], place: &mut Vec<usize>) -> f64 {
    let Some(axis) = weights.get(place.len()) else { return x.at(place).float() };
    let mut total = 0.0;
    for (i, weight) in axis.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
        place.push(i);
        total += weight * sum(x, weights, place);
        place.pop();
    }
    total
}

/// A value of the type: integers are rounded first, and saturate.
pub(super) fn whole(dtype: DType, value: f64, round: fn(f64) -> f64) -> Cell {
    if dtype.is_float() {
        return Cell::Float(value);
    }
    let value: i64 = ort_tensor::Number::from_f64(round(value));
    // Results of such small numbers cannot exceed any other type.
    let is_unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    Cell::Int(if is_unsigned { value.max(0) } else { value }.into())
}

fn pick_mode(draw: &mut Draw, dtype: DType, modes: &[&'static str]) -> &'static str {
    if dtype.is_number() { draw.pick(modes) } else { "nearest" }
}

/// Any values for nearest, small integers, or floats from 1 to 2 whose sums are exact enough.
pub(super) fn operand(draw: &mut Draw, dtype: DType, shape: &[usize], mode: &str) -> Tensor {
    if mode == "nearest" || !dtype.is_number() {
        return draw.any(dtype, shape);
    }
    if dtype.is_integer() {
        return draw.small(dtype, shape);
    }
    let around_0 = Array::of(&draw.real(dtype, shape, 0.5));
    around_0.map(|cell| Cell::Float(1.5 + cell.float())).to_tensor(dtype)
}

/// The rule before there were attributes.
const OLD: Rule = Rule {
    mode: "nearest",
    nearest: "simple",
    coordinates: "asymmetric",
    cubic_a: -0.75,
    excludes_outside: false,
    has_antialias: false,
    extrapolation: 0.0,
};

/// Scales of axes, most of them 1. For arithmetic on integers, weights must be exact.
fn scales(draw: &mut Draw, n: usize, dtype: DType, may_shrink: bool) -> Vec<f32> {
    let exact = [1.0, 1.0, 1.0, 2.0, 4.0, 0.5];
    let other = [1.0, 1.0, 1.0, 1.0, 2.0, 1.7, 3.0, 0.5, 0.6];
    let all: &[f32] = if dtype.is_float() { &other } else { &exact };
    let scales: Vec<_> = all.iter().copied().filter(|&scale| may_shrink || scale >= 1.0).collect();
    (0..n).map(|_| draw.pick(&scales)).collect()
}

fn upsample(draw: &mut Draw, dtype: DType) -> Sample {
    let rule = Rule { mode: pick_mode(draw, dtype, &["nearest", "linear"]), ..OLD };
    let shape = if draw.version < 7 { draw.shape_of_rank(4) } else { draw.shape(1) };
    let mut scales = scales(draw, shape.len(), dtype, false);
    if draw.version < 7 {
        scales[..2].fill(1.0);
    }
    let x = operand(draw, dtype, &shape, rule.mode);
    let axes = shape.iter().zip(&scales).map(|(&n, &scale)| Axis::new(n, scale, float(n) * scale));
    let mode = Attr::String(rule.mode.into());
    let sample = resizing(&x, axes.collect(), rule).attr("mode", mode);
    match draw.version {
        ..7 => sample
            .attr("height_scale", Attr::Float(scales[2]))
            .attr("width_scale", Attr::Float(scales[3])),
        7..9 => sample.attr("scales", Attr::Floats(scales)),
        _ => sample.input(1, Tensor::from_slice(&[scales.len()], &scales).unwrap()),
    }
}

fn resize(draw: &mut Draw, dtype: DType) -> Sample {
    if draw.version >= 11 {
        return resize_by_rule(draw, dtype);
    }
    let rule = Rule { mode: pick_mode(draw, dtype, &["nearest", "linear"]), ..OLD };
    let shape = draw.shape(1);
    let scales = scales(draw, shape.len(), dtype, true);
    let x = operand(draw, dtype, &shape, rule.mode);
    let axes = shape.iter().zip(&scales).map(|(&n, &scale)| Axis::new(n, scale, float(n) * scale));
    let mode = Attr::String(rule.mode.into());
    let sample = resizing(&x, axes.collect(), rule).attr("mode", mode);
    sample.input(1, Tensor::from_slice(&[scales.len()], &scales).unwrap())
}

/// A rule with the attributes of the version.
fn rule(draw: &mut Draw, dtype: DType) -> Rule {
    let mode = pick_mode(draw, dtype, &["nearest", "linear", "cubic"]);
    let is_picked = mode == "nearest";
    // Those with exact weights, then the others.
    let mut coordinates = vec!["half_pixel", "pytorch_half_pixel", "asymmetric"];
    let excludes_outside = dtype.is_float() && !is_picked && draw.one_in(3);
    if is_picked || dtype.is_float() {
        coordinates.push("align_corners");
    }
    if (is_picked || dtype.is_float()) && !excludes_outside {
        coordinates.push("tf_crop_and_resize");
        coordinates.extend((draw.version < 13).then_some("tf_half_pixel_for_nn"));
        coordinates.extend((draw.version >= 19).then_some("half_pixel_symmetric"));
    }
    let coordinates = draw.pick(&coordinates);
    let has_value = coordinates == "tf_crop_and_resize" && dtype.is_number() && draw.one_in(2);
    Rule {
        mode,
        nearest: draw.pick(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
        coordinates,
        cubic_a: draw.pick(&[-0.75, -0.5]),
        excludes_outside,
        has_antialias: draw.version >= 18 && dtype.is_float() && !is_picked && draw.one_in(3),
        extrapolation: if has_value { 2.0 } else { 0.0 },
    }
}

fn resize_by_rule(draw: &mut Draw, dtype: DType) -> Sample {
    let rule = rule(draw, dtype);
    let shape = draw.shape(1);
    let rank = shape.len();
    let has_axes = draw.version >= 18 && draw.one_in(2);
    let chosen: Vec<_> = if has_axes { draw.axes(rank) } else { (0..rank).collect() };
    let has_axes = has_axes && !chosen.is_empty();
    let chosen = if has_axes { chosen } else { (0..rank).collect() };
    let scales = scales(draw, chosen.len(), dtype, true);
    let mut axes: Vec<_> = shape.iter().map(|&n| Axis::new(n, 1.0, float(n))).collect();
    for (&axis, &scale) in chosen.iter().zip(&scales) {
        axes[axis] = Axis::new(shape[axis], scale, float(shape[axis]) * scale);
    }
    let (has_sizes, mut policy) = (draw.one_in(2), None);
    let sizes: Vec<_> = chosen.iter().map(|&axis| axes[axis].m).collect();
    if has_sizes {
        policy = size_axes(draw, &mut axes, &chosen, &sizes);
    }
    let regions: Vec<_> =
        chosen.iter().map(|_| draw.pick(&[(0.0, 1.0), (0.25, 0.5), (-0.5, 1.25)])).collect();
    chosen.iter().zip(&regions).for_each(|(&axis, &region)| axes[axis].region = region);

    let roi: Vec<f32> =
        regions.iter().map(|it| it.0).chain(regions.iter().map(|it| it.1)).collect();
    let roi = Tensor::from_slice(&[roi.len()], &roi).unwrap();
    let x = operand(draw, dtype, &shape, rule.mode);
    let mut sample = resizing(&x, axes, rule.clone());
    if rule.coordinates == "tf_crop_and_resize" {
        sample = sample.input(1, roi);
    }
    sample = match has_sizes {
        true => sample.input(3, counts(&sizes)),
        false => sample.input(2, Tensor::from_slice(&[scales.len()], &scales).unwrap()),
    };
    if let Some(policy) = policy {
        sample = sample.attr("keep_aspect_ratio_policy", Attr::String(policy.into()));
    }
    if has_axes {
        let written = chosen.iter().map(|&axis| draw.written(axis, rank)).collect();
        sample = sample.attr("axes", Attr::Ints(written));
    }
    rule_attrs(sample, &rule)
}

/// The axes with given sizes, and the aspect ratio policy.
fn size_axes(
    draw: &mut Draw,
    axes: &mut [Axis],
    chosen: &[usize],
    sizes: &[usize],
) -> Option<&'static str> {
    let ratio = |axis: &Axis, size: usize| float(size) / float(axis.n);
    let is_empty = chosen.iter().any(|&axis| axes[axis].n == 0);
    let ratios = chosen.iter().zip(sizes).map(|(&axis, &size)| ratio(&axes[axis], size));
    let (least, greatest) = (ratios.clone().reduce(f32::min), ratios.reduce(f32::max));
    let policies = [None, Some(("not_larger", least)), Some(("not_smaller", greatest))];
    let may_be_common = draw.version >= 18 && !is_empty;
    let policy = if may_be_common { draw.pick(&policies) } else { None };
    for (&axis, &size) in chosen.iter().zip(sizes) {
        let n = axes[axis].n;
        axes[axis] = match policy {
            Some((_, scale)) => Axis::new(n, scale.unwrap(), scale.unwrap() * float(n) + 0.5),
            None => {
                Axis::new(n, if n == size { 1.0 } else { ratio(&axes[axis], size) }, float(size))
            }
        };
    }
    policy.map(|it| it.0)
}

/// The attributes of a rule, absent where they are the default.
fn rule_attrs(sample: Sample, rule: &Rule) -> Sample {
    let text = |text: &str| Attr::String(text.into());
    let flag = |flag: bool| Attr::Int(flag.into());
    let attrs = [
        ("mode", text(rule.mode), rule.mode == "nearest"),
        ("nearest_mode", text(rule.nearest), rule.nearest == "round_prefer_floor"),
        (
            "coordinate_transformation_mode",
            text(rule.coordinates),
            rule.coordinates == "half_pixel",
        ),
        ("cubic_coeff_a", Attr::Float(rule.cubic_a), rule.cubic_a == -0.75),
        ("exclude_outside", flag(rule.excludes_outside), !rule.excludes_outside),
        ("antialias", flag(rule.has_antialias), !rule.has_antialias),
        ("extrapolation_value", Attr::Float(rule.extrapolation), rule.extrapolation == 0.0),
    ];
    let given = attrs.into_iter().filter(|(_, _, is_default)| !is_default);
    given.fold(sample, |sample, (name, attr, _)| sample.attr(name, attr))
}
