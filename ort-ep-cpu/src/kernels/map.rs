//! Functions of one f32 operand: `y[i] = f(x[i])`, or `f(x[i] + bias)`.

use std::any::Any;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::{Activation, Isa, vec};
use ort_ops::ops::activation::Activation as Attributed;
use ort_ops::ops::clip::Clip;
use ort_ops::ops::gelu::Gelu;
use ort_ops::ops::unary::Unary;
use ort_tensor::{DType, Inputs, Shape, TensorError};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One function; it works in place.
#[derive(Clone, Copy, Debug)]
struct MapKernel {
    cpu: Cpu,
    function: Function,
}

/// What is computed of a row.
#[derive(Clone, Copy, Debug)]
enum Function {
    /// One that products and convolutions apply, too.
    Activation(Activation),
    /// Another.
    Of(fn(Isa, &mut [f32])),
    /// Between the bounds in inputs 1 and 2.
    Clip,
    /// Of the sum with the bias in input 1, which is as long as a row.
    Biased(Activation),
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(function) = function(compiler) else { return Ok(None) };
    if !compiler.are_f32(0..3) {
        return Ok(None);
    }
    Ok(Some(Box::new(MapKernel { cpu: compiler.cpu, function })))
}

fn function(compiler: &Compiler<'_>) -> Option<Function> {
    let [id] = compiler.claim.nodes.as_slice() else { return None };
    let op: &dyn Any = &*compiler.graph.node(*id).op;
    if let Some(unary) = op.downcast_ref() {
        return of_unary(*unary);
    }
    if let Some(attributed) = op.downcast_ref() {
        return of_attributed(*attributed).map(Function::Activation);
    }
    match op.downcast_ref() {
        Some(Clip::Inputs) => return Some(Function::Clip),
        Some(&Clip::Attributes { min, max }) => {
            return Some(Function::Activation(Activation::Clip { min, max }));
        }
        None => {}
    }
    let gelu = match op.downcast_ref()? {
        Gelu::Exact => Activation::Gelu,
        Gelu::Tanh => Activation::GeluTanh,
    };
    let has_bias = compiler.fact(1).is_some();
    Some(if has_bias { Function::Biased(gelu) } else { Function::Activation(gelu) })
}

fn of_unary(unary: Unary) -> Option<Function> {
    /// The function `$f` of each element, left to the compiler.
    macro_rules! each {
        ($f:expr) => {
            Function::Of(|_, x| x.iter_mut().for_each(|x| *x = $f(*x)))
        };
    }
    Some(match unary {
        Unary::Relu => Function::Activation(Activation::Relu),
        Unary::Sigmoid => Function::Activation(Activation::Sigmoid),
        Unary::Tanh => Function::Activation(Activation::Tanh),
        Unary::HardSwish => Function::Activation(Activation::HardSwish),
        Unary::Exp => Function::Of(vec::exp),
        Unary::Erf => Function::Of(vec::erf),
        Unary::Abs => each!(f32::abs),
        Unary::Neg => each!(std::ops::Neg::neg),
        Unary::Sqrt => each!(f32::sqrt),
        Unary::Reciprocal => each!(f32::recip),
        Unary::Floor => each!(f32::floor),
        Unary::Ceil => each!(f32::ceil),
        Unary::Round => each!(f32::round_ties_even),
        _ => return None,
    })
}

fn of_attributed(attributed: Attributed) -> Option<Activation> {
    Some(match attributed {
        Attributed::HardSigmoid { alpha, beta } => Activation::HardSigmoid { alpha, beta },
        Attributed::LeakyRelu { alpha } => Activation::LeakyRelu { alpha },
        Attributed::QuickGelu { alpha } | Attributed::Swish { alpha } => Activation::Silu { alpha },
        _ => return None,
    })
}

/// A function with what it reads besides `x`.
#[derive(Clone, Copy)]
enum Bound<'a> {
    Activation(Activation),
    Of(fn(Isa, &mut [f32])),
    Biased(Activation, &'a [f32]),
}

impl Function {
    fn bind<'a>(self, inputs: Inputs<'a>) -> Result<Bound<'a>, KernelError> {
        Ok(match self {
            Self::Activation(activation) => Bound::Activation(activation),
            Self::Of(f) => Bound::Of(f),
            Self::Biased(activation) => Bound::Biased(activation, inputs.tensor(1)?.as_slice()?),
            Self::Clip => {
                let bound = |index, absent: f32| -> Result<f32, TensorError> {
                    let given = inputs.optional_tensor(index)?;
                    let given = given.map(|bound| bound.as_slice::<f32>()).transpose()?;
                    Ok(given.and_then(|bound| bound.first().copied()).unwrap_or(absent))
                };
                let (min, max) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
                if min.is_nan() || max.is_nan() {
                    return Ok(Bound::Of(|_, x| x.fill(f32::NAN)));
                }
                Bound::Activation(Activation::Clip { min, max })
            }
        })
    }

    /// Multiply-adds that cost as much as an element.
    const fn cost(self) -> usize {
        match self {
            Self::Activation(Activation::None | Activation::Relu | Activation::Clip { .. })
            | Self::Clip => 4,
            _ => 16,
        }
    }
}

impl Bound<'_> {
    fn apply(self, isa: Isa, y: &mut [f32]) {
        match self {
            Self::Activation(activation) => activation.apply(isa, y),
            Self::Of(f) => f(isa, y),
            Self::Biased(activation, bias) => {
                for row in y.chunks_exact_mut(bias.len().max(1)) {
                    vec::add(isa, row, bias);
                    activation.apply(isa, row);
                }
            }
        }
    }
}

impl Kernel for MapKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let bad = |index, what| ort_graph::OpError::InputValue { index, what };
        let n = |index: usize| shapes.get(index).map_or(1, |shape| shape.iter().product::<usize>());
        match self.function {
            Function::Biased(_) if shapes[0].last() != Some(&n(1)) => {
                Err(bad(1, "a bias is not as long as a row").into())
            }
            Function::Clip if n(1) != 1 || n(2) != 1 => {
                Err(bad(1, "a bound is not one element").into())
            }
            _ => Ok(Prepared::new(Shape::from_slice(shapes[0]))),
        }
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let isa = self.cpu.isa;
        let shape: &Shape = prepared.state()?;
        let function = self.function.bind(io.inputs)?;
        let x = match io.outputs[0].in_place_of() {
            Some(_) => None,
            None => Some(io.inputs.tensor(0)?.as_slice::<f32>()?),
        };
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        // Parts of whole rows where a row has a bias.
        let unit = match function {
            Bound::Biased(_, bias) => bias.len().max(1),
            _ => 1,
        };
        let n_parts = n_parts(io.threads, y.len().saturating_mul(self.function.cost()));
        let len = y.len().div_ceil(n_parts).next_multiple_of(unit).max(unit);
        let team = Team::new(io.threads, n_parts);
        team.run(y.chunks_mut(len).enumerate(), |(i, y), _| match (x, function) {
            (None, _) => function.apply(isa, y),
            (Some(x), Bound::Biased(..)) => {
                y.copy_from_slice(&x[i * len..][..y.len()]);
                function.apply(isa, y);
            }
            (Some(x), _) => {
                vec::map(&x[i * len..][..y.len()], y, |_, piece| function.apply(isa, piece));
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "map_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, ulps, within};

    const MICROSOFT: &str = "com.microsoft";

    /// The rounding of functions `x·f(x)` whose bound is relative to x, and x is at most 4.
    fn of_x(n: f32) -> impl Fn(f32, f32) -> bool {
        within(n * 4.0 * f32::EPSILON / 2.0)
    }

    #[test]
    fn functions_stay_within_the_bounds_of_their_kernels() {
        for shape in [&[][..], &[0], &[1], &[3, 5, 7], &[40_000]] {
            let x = || floats(shape);
            let case = |name, version| Case::new(name, version).input(x());
            for name in ["Relu", "Abs", "Neg", "Sqrt", "Floor", "Ceil", "Round"] {
                case(name, if name == "Round" { 22 } else { 13 }).check(exact);
            }
            case("Reciprocal", 13).check(exact);
            case("Exp", 13).check(ulps(2));
            case("Sigmoid", 13).check(ulps(3));
            case("Tanh", 13).check(ulps(2));
            case("Erf", 13).check(ulps(2));
            case("HardSwish", 14).check(of_x(4.0));
            case("LeakyRelu", 16).check(ulps(1));
            case("HardSigmoid", 22).check(within(f32::EPSILON));
            case("Gelu", 20).check(of_x(4.0));
            case("Gelu", 1).domain(MICROSOFT).check(of_x(4.0));
            case("FastGelu", 1).domain(MICROSOFT).check(of_x(5.0));
            case("QuickGelu", 1).domain(MICROSOFT).check(of_x(4.0));
        }
    }

    #[test]
    fn clip_takes_its_bounds_from_attributes_and_inputs() {
        let bound = |x: f32| Tensor::scalar(x);
        let x = || floats(&[3, 50]);
        let old = Case::new("Clip", 6).attr("max", Attr::Float(1.5)).input(x());
        old.check(exact);
        Case::new("Clip", 13).input(x()).check(exact);
        Case::new("Clip", 13).input(x()).weight(bound(-1.0)).weight(bound(0.5)).check(exact);
        Case::new("Clip", 13).input(x()).absent().weight(bound(0.5)).check(exact);
        Case::new("Clip", 13).input(x()).weight(bound(2.0)).weight(bound(-2.0)).check(exact);
        Case::new("Clip", 13).input(x()).weight(bound(f32::NAN)).check(exact);
    }

    #[test]
    fn a_bias_is_added_to_every_row() {
        for name in ["BiasGelu", "FastGelu"] {
            for shape in [&[5, 37][..], &[2, 100, 256], &[0, 3], &[7]] {
                let bias = floats(&shape[shape.len() - 1..]);
                let case = Case::new(name, 1).domain(MICROSOFT).input(floats(shape)).weight(bias);
                // The sum is at most 8 and may round.
                case.check(within(6.0 * 8.0 * f32::EPSILON / 2.0));
            }
        }
    }
}
