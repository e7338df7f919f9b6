//! DynamicQuantizeLinear.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::quantize::quantize_u8;
use ort_ops::ops::quantization::DynamicQuantizeLinear;
use ort_tensor::{DType, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::scheme::{Scheme, in_pieces};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct DynamicQuantize {
    isa: Isa,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_taken = compiler.op::<DynamicQuantizeLinear>().is_some() && compiler.are_f32(0..1);
    Ok(is_taken.then(|| Box::new(DynamicQuantize { isa: compiler.cpu.isa }) as Box<dyn Kernel>))
}

impl Kernel for DynamicQuantize {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Shape::from(x)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let Scheme { scale, zero } = Scheme::of_floats(self.isa, x);
        for (index, output) in io.outputs.iter_mut().enumerate().filter(|(_, it)| it.is_wanted()) {
            match index {
                0 => {
                    let y = output.tensor(DType::U8, prepared.state::<Shape>()?)?.into_slice()?;
                    in_pieces(io.threads, (x, y), |x, y| quantize_u8(self.isa, x, scale, zero, y));
                }
                1 => output.tensor(DType::F32, &[])?.into_slice::<f32>()?.fill(scale),
                _ => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "0 to 255"
                    )]
                    output.tensor(DType::U8, &[])?.into_slice::<u8>()?.fill(zero as u8);
                }
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantize")
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, exact, floats};

    #[test]
    fn results_equal_eval() {
        for shape in [&[][..], &[0], &[3], &[2, 300, 77]] {
            let case = || Case::new("DynamicQuantizeLinear", 11).input(floats(shape)).outputs(3);
            case().check(exact);
            case().unwanted(&[1]).check(exact);
        }
    }
}
