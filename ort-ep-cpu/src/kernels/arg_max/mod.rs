//! ArgMax and ArgMin of every numeric type.

mod indices;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_ops::ops::argmax::ArgMax;
use ort_tensor::{DType, Shape, with_dtype};

pub(super) use self::indices::{indices_of_columns, indices_of_rows};
use super::folds::Summed;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts, per_part};
use crate::lanes::Lanes;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, and the overhead per lane, in multiply-adds.
pub(super) const COST: usize = 8;
pub(super) const LANE: usize = 128;

#[derive(Debug)]
struct ArgMaxKernel {
    isa: Isa,
    op: ArgMax,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    /// The operand as `[outer, len, inner]`; `None` if it is empty, which the operator handles.
    lanes: Option<Lanes>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) =
        (compiler.op::<ArgMax>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let isa = compiler.cpu.isa;
    Ok(dtype.is_number().then(|| Box::new(ArgMaxKernel { isa, op, dtype }) as Box<dyn Kernel>))
}

impl Kernel for ArgMaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let (axis, shape) = self.op.reduced(x)?;
        // Indices of adjacent lanes are computed in 32 bits.
        let fits = !x.contains(&0) && u32::try_from(x[axis]).is_ok();
        Ok(Prepared::new(State { shape, lanes: fits.then(|| Lanes::along(x, axis)) }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, lanes } = prepared.state()?;
        let &Some(lanes) = lanes else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        with_dtype!(self.dtype, number,
            T => self.search::<T>((shape, lanes), io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "arg_max")
    }
}

impl ArgMaxKernel {
    fn search<T: Summed>(
        &self,
        (shape, Lanes { len, inner }): (&[usize], Lanes),
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(DType::I64, shape)?.into_slice::<i64>()?;
        let cost = len.saturating_mul(COST).saturating_add(LANE).saturating_mul(inner);
        let n_blocks = y.len() / inner;
        let n_parts = n_parts(io.threads, n_blocks.saturating_mul(cost));
        let per_part = per_part(io.threads, n_blocks, n_parts);
        let parts = x.chunks(per_part * len * inner).zip(y.chunks_mut(per_part * inner));
        Team::new(io.threads, parts.len()).run(parts, |(x, y), _| {
            if inner == 1 {
                return indices_of_rows(self.isa, self.op, x, y);
            }
            for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(inner)) {
                indices_of_columns(self.isa, self.op, (x, inner), y);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, exact, integers};

    fn case(name: &'static str, axis: i64, [keepdims, last]: [i64; 2]) -> Case {
        Case::new(name, 13)
            .attr("axis", Attr::Int(axis))
            .attr("keepdims", Attr::Int(keepdims))
            .attr("select_last_index", Attr::Int(last))
    }

    #[test]
    fn indices_equal_the_operators() {
        for name in ["ArgMax", "ArgMin"] {
            for how in [[0, 0], [0, 1], [1, 0], [1, 1]] {
                for shape in [&[3, 70][..], &[7, 1], &[2, 5, 130], &[1, 4, 60, 1], &[2, 70, 3]] {
                    case(name, -1, how).input(integers(shape)).check(exact);
                    case(name, 1, how).input(integers(shape)).check(exact);
                    case(name, 0, how).input(integers(shape)).check(exact);
                }
                // Large enough for several threads.
                case(name, 1, how).input(integers(&[3000, 150])).check(exact);
                let x = [1.0, f32::NAN, 2.0, f32::NAN, 0.0, -0.0, f32::NEG_INFINITY, -0.0];
                for axis in [0, 1] {
                    let x = Tensor::from_slice(&[2, 4], &x).unwrap();
                    case(name, axis, how).input(x).check(exact);
                }
            }
        }
    }

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| (i * 7919 % 113) as f64 - 56.0;
        let elements: Vec<T> = (0..n).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    }

    #[test]
    fn every_type_is_ordered() {
        for dtype in DType::ALL.iter().filter(|dtype| dtype.is_number()) {
            for how in [[0, 0], [1, 1]] {
                for axis in [0, 1, 2] {
                    let x = with_dtype!(*dtype, number,
                        T => numbers::<T>(&[5, 130, 67]), else => panic!());
                    case("ArgMax", axis, how).input(x.clone()).check(exact);
                    case("ArgMin", axis, how).input(x).check(exact);
                }
            }
        }
    }
}
