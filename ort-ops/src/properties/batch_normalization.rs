//! BatchNormalization, which in training also returns running averages.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::normalization::{self, CANCELLED, epsilon, floats, image};
use super::{Array, Cell, Draw, Expected, Sample};

struct Batch {
    x: Tensor,
    /// Scale, b, mean and variance.
    parameters: [Tensor; 4],
    /// The axes along which parameters differ.
    own: Vec<usize>,
    epsilon: f64,
    /// The weight of the old running averages, in training.
    momentum: Option<f64>,
    n_outputs: usize,
}

pub(super) fn draw(draw: &mut Draw, dtype: DType) -> Sample {
    let version = draw.version;
    let x = image(draw, dtype);
    let (is_training, training_mode) = draw.flag(false);
    let (is_spatial, spatial) = if version < 9 { draw.flag(true) } else { (true, None) };
    let own: Vec<_> = if is_spatial { vec![1] } else { (1..x.shape().len()).collect() };
    let n_outputs = match version {
        _ if !is_training => 1,
        ..14 => 5,
        _ => draw.pick(&[1, 3]),
    };
    let parameters =
        parameters(draw, dtype, &own.iter().map(|&axis| x.shape()[axis]).collect::<Vec<_>>());
    let inputs = [std::slice::from_ref(&x), &parameters[..]].concat();
    let (epsilon, written) = epsilon(draw, 1e-5);
    let given = draw.pick(&[None, Some(0.5)]);
    let momentum = is_training.then_some(given.unwrap_or(0.9_f32).into());
    let batch = Batch { x, parameters, own, epsilon, momentum, n_outputs };
    let sample = Sample::new(&inputs.iter().collect::<Vec<_>>(), move || batch.outputs());
    let sample = sample.outputs(n_outputs).maybe("epsilon", written).maybe("spatial", spatial);
    let sample = sample.maybe("momentum", given.map(Attr::Float));
    match version {
        ..7 => sample.attr("is_test", Attr::Int((!is_training).into())),
        7..14 => sample,
        _ => sample.maybe("training_mode", training_mode),
    }
}

/// With the channels last, there is no training.
pub(super) fn draw_channels_last(draw: &mut Draw, dtype: DType) -> Sample {
    let x = image(draw, dtype);
    let axis = x.shape().len() - 1;
    let parameters = parameters(draw, dtype, &x.shape()[axis..]);
    let inputs = [std::slice::from_ref(&x), &parameters[..]].concat();
    let (epsilon, written) = epsilon(draw, 1e-5);
    let batch = Batch { x, parameters, own: vec![axis], epsilon, momentum: None, n_outputs: 1 };
    let sample = Sample::new(&inputs.iter().collect::<Vec<_>>(), move || batch.outputs());
    sample.maybe("epsilon", written)
}

/// From version 15 on the statistics may be of another type.
fn parameters(draw: &mut Draw, dtype: DType, shape: &[usize]) -> [Tensor; 4] {
    let is_mixed = draw.version >= 15 && dtype.is_float();
    let statistics = if is_mixed { DType::F32 } else { dtype };
    let variance = Draw::map(&draw.small(statistics, shape), |x| match x {
        Cell::Float(x) => Cell::Float(x.abs()),
        x => x.clone(),
    });
    let [scale, b] = [0, 1].map(|_| draw.small(dtype, shape));
    [scale, b, draw.small(statistics, shape), variance]
}

impl Batch {
    fn outputs(&self) -> Vec<Expected> {
        let [_, _, mean, variance] = [0, 1, 2, 3].map(|i| Array::of(&self.parameters[i]));
        let expected =
            |i: usize, array| Expected::rounded(self.parameters[i].dtype(), array, CANCELLED);
        let y = |mean, variance| {
            Expected::rounded(self.x.dtype(), self.normalized(mean, variance), CANCELLED)
        };
        let Some(momentum) = self.momentum else { return y(&mean, &variance) };
        let found = [self.found(normalization::mean), self.found(normalization::variance)];
        let running = |given: &Array, found: &Array| {
            Array::from_fn(&given.shape, |i| {
                let (given, found) = (given.at(i).float(), found.at(i).float());
                Cell::Float(given * momentum + found * (1.0 - momentum))
            })
        };
        let all = [
            y(&found[0], &found[1]),
            expected(2, running(&mean, &found[0])),
            expected(3, running(&variance, &found[1])),
            expected(2, found[0].clone()),
            expected(3, found[1].clone()),
        ];
        all.into_iter().flatten().take(self.n_outputs).collect()
    }

    /// `f` of the elements that share parameters.
    fn found(&self, f: fn(&[f64]) -> f64) -> Array {
        let rank = self.x.shape().len();
        let joined: Vec<_> = (0..rank).filter(|axis| !self.own.contains(axis)).collect();
        let found = Array::of(&self.x).reduced(&joined, |x| Cell::Float(f(&floats(x))));
        found.reshaped(self.parameters[2].shape())
    }

    fn normalized(&self, mean: &Array, variance: &Array) -> Array {
        let x = Array::of(&self.x);
        let (scale, b) = (Array::of(&self.parameters[0]), Array::of(&self.parameters[1]));
        Array::from_fn(&x.shape, |i| {
            let place: Vec<_> = self.own.iter().map(|&axis| i[axis]).collect();
            let at = |array: &Array| array.at(&place).float();
            let normal = (x.at(i).float() - at(mean)) / (at(variance) + self.epsilon).sqrt();
            Cell::Float(normal * at(&scale) + at(&b))
        })
    }
}
