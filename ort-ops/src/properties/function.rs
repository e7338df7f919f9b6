//! Activations of fused operators, by their formulas.

use ort_graph::Attr;

use super::Draw;

/// A function of one number, and how a node names it.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The parameters, in the order of the formula.
    pub(super) parameters: Vec<f32>,
    pub(super) of: fn(f64, &[f64]) -> f64,
}

/// Names, how many parameters there are, and formulas.
const FUNCTIONS: &[(&str, usize, fn(f64, &[f64]) -> f64)] = &[
    ("Affine", 2, |x, p| p[0] * x + p[1]),
    ("Relu", 0, |x, _| x.max(0.0)),
    ("LeakyRelu", 1, |x, p| if x < 0.0 { p[0] * x } else { x }),
    ("ThresholdedRelu", 1, |x, p| if x > p[0] { x } else { 0.0 }),
    ("Tanh", 0, |x, _| x.tanh()),
    ("ScaledTanh", 2, |x, p| p[0] * (p[1] * x).tanh()),
    ("Sigmoid", 0, |x, _| 1.0 / (1.0 + (-x).exp())),
    ("HardSigmoid", 2, |x, p| (p[0] * x + p[1]).clamp(0.0, 1.0)),
    ("HardSwish", 0, |x, _| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
    ("Elu", 1, |x, p| if x < 0.0 { p[0] * x.exp_m1() } else { x }),
    ("Selu", 2, |x, p| p[1] * if x > 0.0 { x } else { p[0] * x.exp_m1() }),
    ("Softplus", 0, |x, _| x.exp().ln_1p()),
    ("ParametricSoftplus", 2, |x, p| p[0] * (p[1] * x).exp().ln_1p()),
    ("Softsign", 0, |x, _| x / (1.0 + x.abs())),
];

impl Function {
    /// An activation of a product or convolution, with all its parameters.
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self::other_than(draw, &["Affine"])
    }

    /// An activation of a recurrent cell.
    pub(super) fn of_cell(draw: &mut Draw) -> Self {
        let cell = Self::other_than(draw, &["HardSwish", "ParametricSoftplus", "Selu"]);
        // Small, so that states do not grow from step to step.
        Self { parameters: cell.parameters.iter().map(|p| p / 4.0).collect(), ..cell }
    }

    /// The one of this name, without parameters.
    pub(super) fn named(name: &str) -> Self {
        let &(name, _, of) = FUNCTIONS.iter().find(|it| it.0 == name).unwrap();
        Self { name, parameters: vec![], of }
    }

    fn other_than(draw: &mut Draw, names: &[&str]) -> Self {
        let rest: Vec<_> = FUNCTIONS.iter().filter(|it| !names.contains(&it.0)).copied().collect();
        let (name, n, of) = draw.pick(&rest);
        let parameters = (0..n).map(|_| draw.pick(&[0.25, 0.5, 2.0])).collect();
        Self { name, parameters, of }
    }

    pub(super) fn apply(&self, x: f64) -> f64 {
        let parameters: Vec<_> = self.parameters.iter().map(|&p| f64::from(p)).collect();
        (self.of)(x, &parameters)
    }

    /// Its name as an attribute.
    pub(super) fn written(&self) -> Attr {
        Attr::String(self.name.into())
    }
}

/// The error of a fused function in units in the last place: one for results rounded once, and some for doubles,
/// whose formulas differ.
pub(super) const ULPS: f64 = 16.0;
