//! Random operators, whose results have a known type, shape and range.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::generator::named;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Bernoulli", &[15, 22], bernoulli),
    Property::onnx("Dropout", &[1, 6, 7, 10, 12, 22], dropout),
    Property::onnx("Multinomial", &[7, 22], multinomial),
    Property::onnx("RandomNormal", &[1, 22], |draw, dtype| random(draw, dtype, NORMAL)),
    Property::onnx("RandomNormalLike", &[1, 22], |draw, dtype| random_like(draw, dtype, NORMAL)),
    Property::onnx("RandomUniform", &[1, 22], |draw, dtype| random(draw, dtype, UNIFORM)),
    Property::onnx("RandomUniformLike", &[1, 22], |draw, dtype| random_like(draw, dtype, UNIFORM)),
];

/// The parameters of a distribution, which are 0 and 1 by default, and a check of a number.
#[derive(Clone, Copy)]
struct Distribution {
    names: [&'static str; 2],
    is_within: fn(f64, [f64; 2]) -> bool,
}

/// Of 53 random bits, none is nine deviations from the mean.
const NORMAL: Distribution = Distribution {
    names: ["mean", "scale"],
    is_within: |x, [mean, scale]| (x - mean).abs() <= 9.0 * scale,
};

/// The upper bound can occur by rounding.
const UNIFORM: Distribution =
    Distribution { names: ["low", "high"], is_within: |x, [low, high]| x >= low && x <= high };

/// A tensor of this type and shape whose cells all satisfy a predicate.
fn each(
    dtype: DType,
    shape: &[usize],
    is_right: impl Fn(&Cell) -> bool + 'static,
) -> Vec<Expected> {
    let shape = shape.to_vec();
    let holds = Box::new(move |y: &Array| y.cells.iter().all(&is_right));
    vec![Expected::Such { dtype, shape, holds }]
}

fn distributed(
    draw: &mut Draw,
    inputs: &[&Tensor],
    (dtype, shape): (DType, Vec<usize>),
    distribution: Distribution,
) -> Sample {
    let given = draw.pick(&[None, Some([-2.0_f32, 3.0])]);
    let parameters = given.unwrap_or([0.0, 1.0]).map(f64::from);
    let sample = Sample::new(inputs, move || {
        each(dtype, &shape, move |y| (distribution.is_within)(y.float(), parameters))
    });
    let seed = draw.one_in(2).then_some(Attr::Float(7.0));
    let [first, second] = distribution.names;
    sample
        .maybe(first, given.map(|given| Attr::Float(given[0])))
        .maybe(second, given.map(|given| Attr::Float(given[1])))
        .maybe("seed", seed)
}

fn random(draw: &mut Draw, dtype: DType, distribution: Distribution) -> Sample {
    let shape = draw.shape(0);
    let written = shape.iter().map(|&dim| dim.try_into().unwrap()).collect();
    let is_written = dtype != DType::F32 || draw.one_in(2);
    distributed(draw, &[], (dtype, shape), distribution)
        .attr("shape", Attr::Ints(written))
        .maybe("dtype", is_written.then(|| named(dtype)))
}

/// With the type of the operand or another.
fn random_like(draw: &mut Draw, dtype: DType, distribution: Distribution) -> Sample {
    let shape = draw.shape(0);
    let is_asked = draw.one_in(2);
    let of_x = if is_asked { draw.pick(DType::ALL) } else { dtype };
    let x = draw.any(of_x, &shape);
    distributed(draw, &[&x], (dtype, shape), distribution)
        .maybe("dtype", is_asked.then(|| named(dtype)))
}

/// A certain one is present, an impossible one is not; others may be.
fn bernoulli(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let p = draw.pick(&[0.0, 0.5, 1.0]);
    let x = match dtype.is_float() {
        true => Array::from_fn(&shape, |_| Cell::Float(p)).to_tensor(dtype),
        false => draw.any(dtype, &shape),
    };
    let types: Vec<_> =
        DType::ALL.iter().copied().filter(|it| it.is_number() || it.is_bool()).collect();
    let written = draw.one_in(2).then(|| draw.pick(&types));
    let seed = draw.one_in(2).then_some(Attr::Float(7.0));
    Sample::new(&[&x], move || {
        each(written.unwrap_or(dtype), &shape, move |y| match y.float() {
            0.0 => p < 1.0,
            1.0 => p > 0.0,
            _ => false,
        })
    })
    .maybe("dtype", written.map(named))
    .maybe("seed", seed)
}

/// Classes with a weight of 0 are not drawn.
fn multinomial(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, n_classes) = (draw.dim(), draw.some_dim());
    let likely = draw.below(n_classes);
    let x = match dtype.is_float() {
        true => Array::from_fn(&[n, n_classes], |i| {
            Cell::Float(if i[1] < likely { f64::NEG_INFINITY } else { i[0] as f64 })
        })
        .to_tensor(dtype),
        false => draw.any(dtype, &[n, n_classes]),
    };
    let size = draw.pick(&[None, Some(0_u8), Some(5)]);
    let written = draw.pick(&[None, Some(DType::I32), Some(DType::I64)]);
    let seed = draw.one_in(2).then_some(Attr::Float(7.0));
    Sample::new(&[&x], move || {
        let shape = [n, size.unwrap_or(1).into()];
        let classes = i128::try_from(likely).unwrap()..i128::try_from(n_classes).unwrap();
        each(written.unwrap_or(DType::I32), &shape, move |y| classes.contains(&y.int()))
    })
    .maybe("sample_size", size.map(|size| Attr::Int(size.into())))
    .maybe("dtype", written.map(named))
    .maybe("seed", seed)
}

/// In training, half of the elements become zero and the others twice what they were.
fn dropout(draw: &mut Draw, dtype: DType) -> Sample {
    let version = draw.version;
    let shape = draw.shape(0);
    let (is_training, training) = draw.flag(version < 7);
    let is_training = is_training && !(7..12).contains(&version);
    // Numbers whose double every float type has, but any bits for types without arithmetic.
    let is_float8 =
        !dtype.is_float() && dtype.bits() == 8 && !dtype.is_integer() && !dtype.is_bool();
    let x = match is_training && (dtype.is_float() || is_float8) {
        true => {
            Array::from_fn(&shape, |_| Cell::Float(draw.pick(&[0.5, 1.0, 2.0]))).to_tensor(dtype)
        }
        false => draw.any(dtype, &shape),
    };
    let has_mask = draw.one_in(2);
    let of_mask = if version < 10 { dtype } else { DType::Bool };
    let sample = Sample::new(&[&x.clone()], move || {
        let (shape, expected) = (x.shape().to_vec(), Array::of(&x));
        let holds = Box::new(move |y: &Array| {
            y.cells.iter().zip(&expected.cells).all(|(y, x)| match is_training {
                true => y.float() == 0.0 || y.float() == 2.0 * x.float(),
                false => y.is(x),
            })
        });
        let y = Expected::Such { dtype, shape: shape.clone(), holds };
        let is_one = move |y: &Cell| y.float() == 1.0 || (is_training && y.float() == 0.0);
        [y].into_iter()
            .chain(has_mask.then(|| each(of_mask, &shape, is_one)).into_iter().flatten())
            .collect()
    });
    let sample = sample.outputs(1 + usize::from(has_mask));
    let ratio = draw.one_in(2);
    match version {
        ..7 => sample.attr("is_test", Attr::Int((!is_training).into())),
        7..12 => sample.maybe("ratio", ratio.then_some(Attr::Float(0.5))),
        _ => {
            let half = Array::from_fn(&[], |_| Cell::Float(0.5)).to_tensor(DType::F32);
            let is_training =
                Array::from_fn(&[], |_| Cell::Bool(is_training)).to_tensor(DType::Bool);
            let training = training.map(|_| is_training);
            sample.input(1, ratio.then_some(half)).input(2, training)
        }
    }
}
