//! Functions of one operand in f32, and Gelu with a bias: `y[i] = f(x[i] + bias[i mod c])`.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId, OpError};
use ort_kernels::vec::{Lane, each, each_in_place};
use ort_kernels::{Activation, Isa, vec};
use ort_ops::ops::{activation, clip::Clip, gelu::Gelu, pow::Pow, unary::Unary};
use ort_tensor::{Inputs, Number, with_dtype};

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
    /// [`Activation::Clip`] between inputs 1 and 2.
    ClipByInputs,
    Celu {
        alpha: f32,
    },
    /// Cheaper than reading and writing the element.
    Cheap(fn(Isa, &mut [f32])),
    /// The same, from one row to another, or in place.
    Direct(fn(Isa, Option<&[f32]>, &mut [f32])),
    /// More expensive.
    Expensive(fn(Isa, &mut [f32])),
    Elu {
        alpha: f32,
    },
    /// `x < −lambd ? x + bias : x > lambd ? x − bias : 0`.
    Shrink {
        bias: f32,
        lambd: f32,
    },
    /// `x > alpha ? x : 0`.
    Threshold {
        alpha: f32,
    },
    /// By a constant.
    Pow(f32),
    Selu {
        alpha: f32,
        gamma: f32,
    },
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let &[id] = compiler.claim.nodes.as_slice() else { return Ok(None) };
    let Some(function) = Function::of(compiler.graph, id) else { return Ok(None) };
    // A constant exponent may have any type.
    let operands = if matches!(function, Function::Pow(_)) { 0..1 } else { 0..3 };
    if !compiler.are_f32(operands) {
        return Ok(None);
    }
    let (isa, has_bias) = (compiler.cpu.isa, compiler.op::<Gelu>().is_some());
    Ok(Some(Box::new(UnaryKernel { isa, function, has_bias })))
}

fn of_unary(op: Unary) -> Option<Function> {
    Some(match op {
        Unary::Abs => Function::Direct(|isa, x, y| direct(isa, x, y, f32::abs)),
        Unary::Acos => Function::Expensive(vec::acos),
        Unary::Acosh => Function::Expensive(vec::acosh),
        Unary::Asin => Function::Expensive(vec::asin),
        Unary::Asinh => Function::Expensive(vec::asinh),
        Unary::Atanh => Function::Expensive(vec::atanh),
        Unary::Atan => Function::Expensive(vec::atan),
        Unary::Ceil => Function::Direct(|isa, x, y| direct(isa, x, y, f32::ceil)),
        Unary::Cos => Function::Expensive(vec::cos),
        Unary::Cosh => Function::Expensive(vec::cosh),
        Unary::Erf => Function::Expensive(vec::erf),
        Unary::Exp => Function::Expensive(vec::exp),
        Unary::Floor => Function::Direct(|isa, x, y| direct(isa, x, y, f32::floor)),
        Unary::HardSwish => Function::Activation(Activation::HardSwish),
        Unary::Log => Function::Expensive(vec::ln),
        Unary::Mish => Function::Expensive(vec::mish),
        Unary::Neg => Function::Direct(|isa, x, y| direct(isa, x, y, |x| -x)),
        Unary::Reciprocal => Function::Direct(|isa, x, y| direct(isa, x, y, |x| 1.0 / x)),
        Unary::Relu => Function::Activation(Activation::Relu),
        Unary::Round => Function::Direct(|isa, x, y| direct(isa, x, y, f32::round_ties_even)),
        Unary::Sigmoid => Function::Activation(Activation::Sigmoid),
        Unary::Sin => Function::Expensive(vec::sin),
        Unary::Softplus => Function::Expensive(vec::softplus),
        Unary::Sinh => Function::Expensive(vec::sinh),
        Unary::Softsign => Function::Cheap(vec::softsign),
        Unary::Sqrt => Function::Direct(|isa, x, y| direct(isa, x, y, f32::sqrt)),
        Unary::Tan => Function::Expensive(vec::tan),
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
        Op::Shrink { bias, lambd } => Function::Shrink { bias, lambd },
        Op::ThresholdedRelu { alpha } => Function::Threshold { alpha },
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
    let input = |i: usize| graph.get_node(id)?.inputs.get(i).copied().flatten();
    let exponent = graph.constant(input(1)?)?;
    // A shape of higher rank would broadcast the base.
    let rank = graph.fact(input(0)?).dims().map_or(0, <[_]>::len);
    let is_one = exponent.len() == 1 && exponent.shape().len() <= rank;
    let exponent = (is_one && !exponent.is_released()).then_some(exponent)?;
    let e = with_dtype!(exponent.dtype(), number,
        T => exponent.as_slice::<T>().ok()?.first().map(|&e| Number::to_f64(e)), else => None)?;
    let narrow = <f32 as Number>::from_f64(e);
    (f64::from(narrow) == e || e.is_nan()).then_some(Function::Pow(narrow))
}

impl Function {
    /// The function of a node, whatever its element type.
    pub(super) fn of(graph: &Graph, id: NodeId) -> Option<Self> {
        let unary = || op::<Unary>(graph, id).and_then(|op| of_unary(*op));
        let activation =
            || op::<activation::Activation>(graph, id).and_then(|op| of_activation(*op));
        let gelu = || op::<Gelu>(graph, id).map(of_gelu);
        let clip = || op::<Clip>(graph, id).map(of_clip);
        unary().or_else(activation).or_else(|| of_pow(graph, id)).or_else(gelu).or_else(clip)
    }

    /// The function with the bounds given in this run.
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

    /// The cost of reading, computing and writing a line, in multiply-adds: see [`Rows::ELEMENTS`].
    pub(super) fn cost(self) -> usize {
        /// Gelu takes 12 ns, a logistic function 8.
        const EXPENSIVE: usize = 1024;
        match self {
            Self::Activation(function) if function.as_clamp().is_some() => Rows::ELEMENTS.cost,
            Self::Cheap(_) | Self::Direct(_) | Self::Shrink { .. } | Self::Threshold { .. } => {
                Rows::ELEMENTS.cost
            }
            Self::ClipByInputs | Self::Pow(2.0 | 3.0) => Rows::ELEMENTS.cost,
            _ => EXPENSIVE,
        }
    }

    /// `y[i] = f(x[i])`, or `f(y[i])` without an `x`; bounds must be resolved.
    fn write(self, isa: Isa, x: Option<&[f32]>, y: &mut [f32]) {
        let clamp = match self {
            Self::Activation(function) => function.as_clamp(),
            _ => None,
        };
        match (self, clamp) {
            (_, Some((min, max))) if !min.is_nan() && !max.is_nan() => {
                direct(isa, x, y, |x| {
                    let x = if x < min { min } else { x };
                    if x > max { max } else { x }
                });
            }
            (Self::Direct(function), _) => function(isa, x, y),
            (Self::Shrink { bias, lambd }, _) => direct(isa, x, y, |x| {
                let above = if x > lambd { x - bias } else { 0.0 };
                if x < -lambd { x + bias } else { above }
            }),
            (Self::Threshold { alpha }, _) => {
                direct(isa, x, y, |x| if x > alpha { x } else { 0.0 });
            }
            (Self::Pow(2.0), _) => direct(isa, x, y, |x| x * x),
            (Self::Pow(3.0), _) => direct(isa, x, y, |x| x * x * x),
            _ => map(x, y, |_, y| self.apply(isa, y)),
        }
    }

    /// `y[i] = f(y[i])`; bounds must be resolved.
    pub(super) fn apply(self, isa: Isa, y: &mut [f32]) {
        match self {
            // Clamping with a NaN bound gives NaN.
            Self::Activation(Activation::Clip { min, max }) if min.is_nan() || max.is_nan() => {
                y.fill(f32::NAN);
            }
            Self::Activation(function) => function.apply(isa, y),
            Self::Cheap(function) | Self::Expensive(function) => function(isa, y),
            Self::Direct(function) => function(isa, None, y),
            Self::Shrink { .. } | Self::Threshold { .. } | Self::Pow(2.0 | 3.0) => {
                self.write(isa, None, y);
            }
            Self::Celu { alpha } => vec::celu(isa, y, alpha),
            Self::Elu { alpha } => vec::elu(isa, y, alpha),
            Self::Pow(e) => vec::pow(isa, y, Lane::Same(e)),
            Self::Selu { alpha, gamma } => vec::selu(isa, y, alpha, gamma),
            Self::ClipByInputs => unreachable!("invariant: bounds are resolved"),
        }
    }
}

/// `y[i] = f(x[i])`, or `f(y[i])` without an `x`.
fn direct(isa: Isa, x: Option<&[f32]>, y: &mut [f32], f: impl Fn(f32) -> f32) {
    match x {
        Some(x) => each(isa, x, y, f),
        None => each_in_place(isa, y, f),
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
                function.write(self.isa, x, y);
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
mod tests;
