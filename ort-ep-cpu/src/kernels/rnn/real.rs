//! The element types of layers, f32 and f64, with the functions of their cells.

use ort_kernels::gemm::of_f64;
use ort_kernels::gemv_f32::{self, Walk};
use ort_kernels::vec::{self, FunctionF64, map_f64};
use ort_kernels::{Activation, Isa};
use ort_ops::ops::rnn;
use ort_tensor::Number;

use crate::summand::Summand;

/// An element type of layers.
pub(in crate::kernels) trait Real: Number + Summand {
    /// The name of packed weights.
    const WEIGHTS: &'static str;

    /// The name of the kernel for an instruction set.
    fn name(isa: Isa) -> &'static str;

    /// `y += x·panels`, packed as right operands of products.
    fn add_row_times_panels(isa: Isa, x: &[Self], panels: &[Self], y: &mut [Self], walk: Walk);

    /// `x = function(x)`.
    fn apply(function: rnn::Activation, isa: Isa, x: &mut [Self]);

    /// `c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)`; gates in the order i, o, f, g, which may change.
    fn lstm_cell(isa: Isa, gates: [&mut [Self]; 4], c: &mut [Self], h: &mut [Self]);

    /// `h = (1 − σ(z))·x̂ + σ(z)·before` with `x̂ = tanh(x + σ(r)·reset)`; gates in the order z, r, then
    /// x and reset of the candidate, which may change.
    fn gru_cell(
        isa: Isa,
        gates: [&mut [Self]; 2],
        candidate: [&mut [Self]; 2],
        before: &[Self],
        h: &mut [Self],
    );

    /// `x` between `−most` and `most`; NaN stays NaN.
    fn clip(isa: Isa, x: &mut [Self], most: Self);

    /// `y = y·x`.
    fn mul(isa: Isa, y: &mut [Self], x: &[Self]);

    /// `y = y + x`.
    fn add(isa: Isa, y: &mut [Self], x: &[Self]);

    /// `y = y − x`.
    fn sub(isa: Isa, y: &mut [Self], x: &[Self]);

    /// `a + b`.
    #[must_use]
    fn plus(self, b: Self) -> Self {
        Self::mul_add::<false>(self, Self::ONE, b)
    }

    /// `x = 1 − x`.
    fn sub_from_one(isa: Isa, x: &mut [Self]);
}

impl Real for f32 {
    const WEIGHTS: &'static str = "rnn_f32/b";

    fn name(isa: Isa) -> &'static str {
        named!(isa => "rnn_f32": product)
    }

    fn add_row_times_panels(isa: Isa, x: &[f32], panels: &[f32], y: &mut [f32], walk: Walk) {
        gemv_f32::add_row_times_panels(isa, x, panels, y, walk);
    }

    fn apply(function: rnn::Activation, isa: Isa, x: &mut [f32]) {
        let plain = match function {
            rnn::Activation::Affine { alpha, beta } => {
                vec::mul_scalar(isa, x, alpha);
                return vec::add_scalar(isa, x, beta);
            }
            rnn::Activation::Elu { alpha } => return vec::elu(isa, x, alpha),
            rnn::Activation::HardSigmoid { alpha, beta } => Activation::HardSigmoid { alpha, beta },
            rnn::Activation::LeakyRelu { alpha } => Activation::LeakyRelu { alpha },
            rnn::Activation::Relu => Activation::Relu,
            rnn::Activation::ScaledTanh { alpha, beta } => {
                vec::mul_scalar(isa, x, beta);
                vec::tanh(isa, x);
                return vec::mul_scalar(isa, x, alpha);
            }
            rnn::Activation::Sigmoid => Activation::Sigmoid,
            rnn::Activation::Softplus => return vec::softplus(isa, x),
            rnn::Activation::Softsign => return vec::softsign(isa, x),
            rnn::Activation::Tanh => Activation::Tanh,
            rnn::Activation::ThresholdedRelu { alpha } => {
                return x.iter_mut().for_each(|x| *x = if *x < alpha { 0.0 } else { *x });
            }
        };
        plain.apply(isa, x);
    }

    fn lstm_cell(isa: Isa, gates: [&mut [f32]; 4], c: &mut [f32], h: &mut [f32]) {
        vec::lstm_cell(isa, gates.map(|gate| &*gate), c, h);
    }

    fn gru_cell(
        isa: Isa,
        gates: [&mut [f32]; 2],
        candidate: [&mut [f32]; 2],
        before: &[f32],
        h: &mut [f32],
    ) {
        vec::gru_cell(isa, gates.map(|gate| &*gate), candidate.map(|part| &*part), before, h);
    }

    fn clip(isa: Isa, x: &mut [f32], most: f32) {
        vec::clip(isa, x, -most, most);
    }

    fn mul(isa: Isa, y: &mut [f32], x: &[f32]) {
        vec::mul(isa, y, x);
    }

    fn add(isa: Isa, y: &mut [f32], x: &[f32]) {
        vec::add(isa, y, x);
    }

    fn sub(isa: Isa, y: &mut [f32], x: &[f32]) {
        vec::sub(isa, y, x);
    }

    fn sub_from_one(isa: Isa, x: &mut [f32]) {
        vec::sub_from_scalar(isa, x, 1.0);
    }
}

impl Real for f64 {
    const WEIGHTS: &'static str = "rnn_f64/b";

    fn name(isa: Isa) -> &'static str {
        named!(isa => "rnn_f64": "avx512_8x16", "avx2_6x8", "generic")
    }

    fn add_row_times_panels(isa: Isa, x: &[f64], panels: &[f64], y: &mut [f64], _: Walk) {
        of_f64::add_row_times_panels(isa, x, panels, y);
    }

    fn apply(function: rnn::Activation, isa: Isa, x: &mut [f64]) {
        match function {
            rnn::Activation::Sigmoid => map_f64(isa, FunctionF64::Sigmoid, None, x),
            rnn::Activation::Tanh => map_f64(isa, FunctionF64::Tanh, None, x),
            _ => x.iter_mut().for_each(|x| *x = function.apply(*x)),
        }
    }

    fn lstm_cell(isa: Isa, gates: [&mut [f64]; 4], c: &mut [f64], h: &mut [f64]) {
        let [i, o, f, g] = gates;
        for gate in [&mut *i, &mut *o, &mut *f] {
            map_f64(isa, FunctionF64::Sigmoid, None, gate);
        }
        map_f64(isa, FunctionF64::Tanh, None, g);
        for (((c, f), i), g) in c.iter_mut().zip(f).zip(i).zip(g) {
            *c = *f * *c + *i * *g;
        }
        map_f64(isa, FunctionF64::Tanh, Some(c), h);
        Self::mul(isa, h, o);
    }

    fn gru_cell(
        isa: Isa,
        [z, r]: [&mut [f64]; 2],
        [x, reset]: [&mut [f64]; 2],
        before: &[f64],
        h: &mut [f64],
    ) {
        map_f64(isa, FunctionF64::Sigmoid, None, z);
        map_f64(isa, FunctionF64::Sigmoid, None, r);
        for ((x, reset), r) in x.iter_mut().zip(reset).zip(r) {
            *x += *r * *reset;
        }
        map_f64(isa, FunctionF64::Tanh, None, x);
        for (((h, before), x), z) in h.iter_mut().zip(before).zip(x).zip(z) {
            *h = *x + *z * (before - *x);
        }
    }

    fn clip(_: Isa, x: &mut [f64], most: f64) {
        x.iter_mut().for_each(|x| *x = x.clamp(-most, most));
    }

    fn mul(_: Isa, y: &mut [f64], x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y *= x);
    }

    fn add(_: Isa, y: &mut [f64], x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    }

    fn sub(_: Isa, y: &mut [f64], x: &[f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y -= x);
    }

    fn sub_from_one(_: Isa, x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x = 1.0 - *x);
    }
}
