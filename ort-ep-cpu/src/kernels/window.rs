//! HannWindow, HammingWindow and BlackmanWindow of float types: threads share the values, which are computed in f64.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::vec::{FunctionF64, map_f64};
use ort_ops::ops::window::Window;
use ort_tensor::{Number, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Cosines that are computed at a time.
const TILE: usize = 128;
/// A cache line of f32, in multiply-adds.
const LINE: Rows = Rows { len: 16, cost: 2048 };

#[derive(Debug)]
struct WindowKernel {
    isa: Isa,
    op: Window,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    // Integers are rounded towards 0, which would show the least error.
    let op = compiler.op::<Window>().filter(|op| op.dtype.is_float());
    let isa = compiler.cpu.isa;
    Ok(op.map(|&op| Box::new(WindowKernel { isa, op }) as Box<dyn Kernel>))
}

impl Kernel for WindowKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        with_dtype!(self.op.dtype, float,
            T => self.compute::<T>(io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "window")
    }
}

impl WindowKernel {
    fn compute<T: Number>(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let size = Window::size(io.inputs)?;
        let y = io.outputs[0].tensor(T::DTYPE, &[size])?.into_slice::<T>()?;
        LINE.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_mut(TILE).enumerate() {
                self.tile(start + i * TILE, size, y);
            }
        });
        Ok(())
    }

    /// The values from `start` on.
    fn tile<T: Number>(&self, start: usize, size: usize, y: &mut [T]) {
        let (isa, op) = (self.isa, &self.op);
        let [c0, c1, c2] = op.coefficients;
        let mut cosines = [[0.0; TILE]; 2];
        let [once, twice] = cosines.each_mut().map(|cosines| &mut cosines[..y.len()]);
        for (i, angle) in once.iter_mut().enumerate() {
            let Some(of_value) = op.angle(start + i, size) else {
                return y.fill(T::from_f64(1.0));
            };
            *angle = of_value;
        }
        if c2 != 0.0 {
            twice.iter_mut().zip(&*once).for_each(|(twice, angle)| *twice = 2.0 * angle);
            map_f64(isa, FunctionF64::Cos, None, twice);
        }
        map_f64(isa, FunctionF64::Cos, None, once);
        for ((y, once), twice) in y.iter_mut().zip(once).zip(twice) {
            *y = T::from_f64(c0 - c1 * *once + c2 * *twice);
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, within};

    #[test]
    fn values_are_those_of_eval() {
        for name in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
            for size in [0_i64, 1, 2, 7, 1000, 70_001] {
                for periodic in [0, 1] {
                    // A value has an error of half a unit, or of one if its value in f64 differs.
                    for (dtype, error) in [(1, 1.2e-7), (11, 1e-15), (10, 1e-3), (16, 8e-3)] {
                        let case = Case::new(name, 17).attr("periodic", Attr::Int(periodic));
                        let case = case.attr("output_datatype", Attr::Int(dtype));
                        case.input(Tensor::scalar(size)).check(within(error));
                    }
                }
            }
        }
    }
}
