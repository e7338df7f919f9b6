//! Functions of one operand in f32, and Gelu with a bias: `y[i] = f(x[i] + bias[i mod c])`.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId, OpError};
use ort_kernels::{Activation, Isa, vec};
use ort_ops::ops::{activation, clip::Clip, gelu::Gelu, pow::Pow, unary::Unary};
use ort_tensor::Inputs;

use super::{Compiled, Compiler, KernelDef, op};
use crate::pieces::{Rows, first_and_output, map};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A function of one operand; input 1 may be a bias if `has_bias`.
#[derive(Debug)]
struct UnaryKernel {
    isa: Isa,
    function: Function,
    has_bias: bool,
}

/// `f`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Activation(Activation),
    /// A [`Activation::Clip`] between inputs 1 and 2.
    ClipByInputs,
    Celu {
        alpha: f32,
    },
    /// One that computes less than reading and writing takes.
    Light(fn(Isa, &mut [f32])),
    /// One that computes more.
    Curved(fn(Isa, &mut [f32])),
    Elu {
        alpha: f32,
    },
    /// By a constant that is finite.
    Pow(f32),
    Selu {
        alpha: f32,
        gamma: f32,
    },
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let &[id] = compiler.claim.nodes.as_slice() else { return Ok(None) };
    let Some(function) = Function::of(compiler.graph, id) else { return Ok(None) };
    if !compiler.are_f32(0..3) {
        return Ok(None);
    }
    let (isa, has_bias) = (compiler.cpu.isa, compiler.op::<Gelu>().is_some());
    Ok(Some(Box::new(UnaryKernel { isa, function, has_bias })))
}

fn of_unary(op: Unary) -> Option<Function> {
    Some(match op {
        Unary::Abs => Function::Light(|_, y| y.iter_mut().for_each(|y| *y = y.abs())),
        Unary::Acos => Function::Curved(vec::acos),
        Unary::Asin => Function::Curved(vec::asin),
        Unary::Atan => Function::Curved(vec::atan),
        Unary::Ceil => Function::Light(vec::ceil),
        Unary::Cos => Function::Curved(vec::cos),
        Unary::Erf => Function::Curved(vec::erf),
        Unary::Exp => Function::Curved(vec::exp),
        Unary::Floor => Function::Light(vec::floor),
        Unary::HardSwish => Function::Activation(Activation::HardSwish),
        Unary::Log => Function::Curved(vec::ln),
        Unary::Mish => Function::Curved(vec::mish),
        Unary::Neg => Function::Light(|_, y| y.iter_mut().for_each(|y| *y = -*y)),
        Unary::Reciprocal => Function::Light(|isa, y| vec::div_scalar_by(isa, y, 1.0)),
        Unary::Relu => Function::Activation(Activation::Relu),
        Unary::Round => Function::Light(vec::round),
        Unary::Sigmoid => Function::Activation(Activation::Sigmoid),
        Unary::Sin => Function::Curved(vec::sin),
        Unary::Softplus => Function::Curved(vec::softplus),
        Unary::Softsign => Function::Curved(vec::softsign),
        Unary::Sqrt => Function::Light(|_, y| y.iter_mut().for_each(|y| *y = y.sqrt())),
        Unary::Tan => Function::Curved(vec::tan),
        Unary::Tanh => Function::Activation(Activation::Tanh),
        _ => return None,
    })
}

fn of_activation(op: activation::Activation) -> Option<Function> {
    use activation::Activation as Op;
    Some(match op {
        Op::Celu { alpha } => Function::Celu { alpha },
        Op::Elu { alpha } => Function::Elu { alpha },
        Op::HardSigmoid { alpha, beta } => {
            Function::Activation(Activation::HardSigmoid { alpha, beta })
        }
        Op::LeakyRelu { alpha } => Function::Activation(Activation::LeakyRelu { alpha }),
        Op::QuickGelu { alpha } | Op::Swish { alpha } => {
            Function::Activation(Activation::Silu { alpha })
        }
        Op::Selu { alpha, gamma } => Function::Selu { alpha, gamma },
        _ => return None,
    })
}

fn of_gelu(op: &Gelu) -> Function {
    Function::Activation(match op {
        Gelu::Exact => Activation::Gelu,
        Gelu::Tanh => Activation::GeluTanh,
    })
}

fn of_clip(op: &Clip) -> Function {
    match *op {
        Clip::Attributes { min, max } => Function::Activation(Activation::Clip { min, max }),
        Clip::Inputs => Function::ClipByInputs,
    }
}

fn of_pow(graph: &Graph, id: NodeId) -> Option<Function> {
    op::<Pow>(graph, id)?;
    let exponent = graph.constant(graph.get_node(id)?.inputs.get(1).copied().flatten()?)?;
    // A longer shape would stretch that of the base.
    match exponent.as_slice::<f32>() {
        Ok(&[e]) if exponent.shape().is_empty() && e.is_finite() => Some(Function::Pow(e)),
        _ => None,
    }
}

impl Function {
    /// What a node computes; its inputs need not be f32.
    pub(super) fn of(graph: &Graph, id: NodeId) -> Option<Self> {
        let unary = || op::<Unary>(graph, id).and_then(|op| of_unary(*op));
        let activation =
            || op::<activation::Activation>(graph, id).and_then(|op| of_activation(*op));
        let gelu = || op::<Gelu>(graph, id).map(of_gelu);
        let clip = || op::<Clip>(graph, id).map(of_clip);
        unary().or_else(activation).or_else(|| of_pow(graph, id)).or_else(gelu).or_else(clip)
    }

    /// The function with the bounds that a run gives.
    fn with_bounds(self, inputs: Inputs<'_>) -> Result<Self, KernelError> {
        let bound = |index, absent| match inputs.optional_tensor(index)? {
            None => Ok(absent),
            Some(bound) => match bound.as_slice::<f32>()? {
                [bound] => Ok(*bound),
                _ => Err(KernelError::Op(OpError::InputValue {
                    index,
                    what: "a bound is not one element",
                })),
            },
        };
        Ok(match self {
            Self::ClipByInputs => Self::Activation(Activation::Clip {
                min: bound(1, f32::NEG_INFINITY)?,
                max: bound(2, f32::INFINITY)?,
            }),
            _ => self,
        })
    }

    pub(super) const fn clip(min: f32, max: f32) -> Self {
        Self::Activation(Activation::Clip { min, max })
    }

    /// What it costs to read, compute and write a line, in multiply-adds: see [`Rows::ELEMENTS`].
    pub(super) fn cost(self) -> usize {
        /// Gelu takes 12 ns, a logistic function 8.
        const CURVED: usize = 1024;
        match self {
            Self::Activation(function) if function.as_clamp().is_some() => Rows::ELEMENTS.cost,
            Self::Light(_) | Self::ClipByInputs | Self::Pow(2.0) => Rows::ELEMENTS.cost,
            _ => CURVED,
        }
    }

    /// `y[i] = f(y[i])`, given its bounds.
    pub(super) fn apply(self, isa: Isa, y: &mut [f32]) {
        match self {
            // Nothing lies between bounds that are no numbers.
            Self::Activation(Activation::Clip { min, max }) if min.is_nan() || max.is_nan() => {
                y.fill(f32::NAN);
            }
            Self::Activation(function) => function.apply(isa, y),
            Self::Light(function) | Self::Curved(function) => function(isa, y),
            Self::Celu { alpha } => vec::celu(isa, y, alpha),
            Self::Elu { alpha } => vec::elu(isa, y, alpha),
            Self::Pow(2.0) => y.iter_mut().for_each(|y| *y *= *y),
            Self::Pow(e) => vec::pow(isa, y, e),
            Self::Selu { alpha, gamma } => vec::selu(isa, y, alpha, gamma),
            Self::ClipByInputs => unreachable!("invariant: a run gives the bounds"),
        }
    }
}

impl Kernel for UnaryKernel {
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let function = self.function.with_bounds(io.inputs)?;
        let bias = if self.has_bias { io.inputs.optional_tensor(1)? } else { None };
        let bias = bias.map(|bias| bias.as_slice::<f32>()).transpose()?;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        let Some(bias) = bias else {
            let lines = Rows { cost: function.cost(), ..Rows::ELEMENTS };
            lines.for_each(io.threads, y, |start, y| {
                let x = x.map(|x| &x[start..][..y.len()]);
                map(x, y, |_, y| function.apply(self.isa, y));
            });
            return Ok(());
        };
        let len = bias.len();
        let cost = len.div_ceil(Rows::ELEMENTS.len).saturating_mul(function.cost());
        let rows = Rows { len, cost };
        rows.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_mut(len.max(1)).enumerate() {
                let x = x.map(|x| &x[start + i * len..][..y.len()]);
                map(x, y, |at, y| {
                    vec::add(self.isa, y, &bias[at..][..y.len()]);
                    function.apply(self.isa, y);
                });
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "unary_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, ulps, within};

    const SHAPES: [&[usize]; 5] = [&[], &[0, 3], &[17], &[2, 3, 5], &[3, 331, 333]];
    /// Operands are at most 4, and errors a few units of the operand.
    const UNITS_OF_X: f32 = 4.0 * 4.0 * (f32::EPSILON / 2.0);

    fn edges() -> Tensor {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        Tensor::from_slice(&[6], &[0.0_f32, -0.0, inf, 100.0, -100.0, nan]).unwrap()
    }

    #[test]
    fn exact_functions_are_exact() {
        for (name, version) in [
            ("Abs", 13),
            ("Ceil", 13),
            ("Floor", 13),
            ("LeakyRelu", 16),
            ("Neg", 13),
            ("Reciprocal", 13),
            ("Relu", 14),
            ("Round", 22),
            ("Sqrt", 13),
        ] {
            for shape in SHAPES {
                Case::new(name, version).input(floats(shape)).check(exact);
            }
            Case::new(name, version).input(edges()).check(exact);
        }
    }

    #[test]
    fn a_square_is_exact() {
        let two = Tensor::scalar(2.0_f32);
        for shape in SHAPES {
            Case::new("Pow", 15).input(floats(shape)).constant(two.clone()).check(exact);
        }
    }

    #[test]
    fn approximate_functions_keep_their_bounds() {
        // A bound of the kernel, and half a unit for the rounding of what is expected.
        for (name, version, n) in
            [("Erf", 13, 2), ("Exp", 13, 2), ("Sigmoid", 13, 3), ("Tanh", 13, 2)]
        {
            for shape in SHAPES {
                Case::new(name, version).input(floats(shape)).check(ulps(n));
            }
            Case::new(name, version).input(edges()).check(ulps(n));
        }
    }

    #[test]
    fn functions_in_f64_are_off_by_a_rounding() {
        for (name, version) in [
            ("Acos", 22),
            ("Asin", 22),
            ("Atan", 22),
            ("Celu", 12),
            ("Cos", 22),
            ("Elu", 22),
            ("Log", 13),
            ("Mish", 22),
            ("Selu", 22),
            ("Sin", 22),
            ("Softplus", 22),
            ("Softsign", 22),
            ("Tan", 22),
        ] {
            for shape in SHAPES {
                Case::new(name, version).input(floats(shape)).check(ulps(1));
            }
            Case::new(name, version).input(edges()).check(ulps(1));
        }
        for e in [0.0_f32, 0.5, 3.0, -1.0, -2.5] {
            for x in [floats(&[3, 331]), edges()] {
                Case::new("Pow", 15).input(x).constant(Tensor::scalar(e)).check(ulps(1));
            }
        }
    }

    #[test]
    fn gated_functions_keep_their_bounds() {
        for (domain, name, version) in [
            ("", "Gelu", 20),
            ("", "HardSigmoid", 22),
            ("", "HardSwish", 22),
            ("", "Swish", 24),
            ("com.microsoft", "FastGelu", 1),
            ("com.microsoft", "Gelu", 1),
            ("com.microsoft", "QuickGelu", 1),
        ] {
            let case = || Case::new(name, version).domain(domain);
            for shape in SHAPES {
                case().input(floats(shape)).check(within(UNITS_OF_X));
            }
            // Differences of the operand, too, are at most a few units of it.
            case().input(edges()).check(within(100.0 * UNITS_OF_X));
        }
        let tanh = Case::new("Gelu", 20).attr("approximate", Attr::String("tanh".into()));
        tanh.input(floats(&[4, 100])).check(within(UNITS_OF_X));
    }

    #[test]
    fn a_bias_comes_first() {
        for name in ["BiasGelu", "FastGelu"] {
            for shape in [&[7][..], &[0, 5], &[5, 1], &[3, 33], &[2, 300, 200]] {
                let bias = floats(&shape[shape.len() - 1..]);
                let case = Case::new(name, 1).domain("com.microsoft");
                // The sum, at most 8, is rounded before the function, whose slope is below 1.2.
                case.input(floats(shape)).weight(bias).check(within(4.0 * UNITS_OF_X));
            }
        }
    }

    #[test]
    fn clip_takes_bounds_from_wherever_they_are() {
        let scalar = |x: f32| Tensor::scalar(x);
        let x = || floats(&[3, 50]);
        Case::new("Clip", 6).attr("max", Attr::Float(1.5)).input(x()).check(exact);
        let case = || Case::new("Clip", 13).input(x());
        case().check(exact);
        case().weight(scalar(-1.0)).weight(scalar(0.5)).check(exact);
        case().absent().weight(scalar(0.5)).check(exact);
        case().weight(scalar(2.0)).weight(scalar(-2.0)).check(exact);
        case().weight(scalar(f32::NAN)).check(exact);
        Case::new("Clip", 13).input(edges()).weight(scalar(0.0)).check(exact);
    }
}
