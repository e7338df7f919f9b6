//! Trilu of elements of any width: threads share the rows.

use bytemuck::{cast_slice, cast_slice_mut};
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::infer::read_scalar;
use ort_ops::ops::trilu::Trilu;
use ort_tensor::{DType, Word};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{BYTE, Rows};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct TriluKernel {
    op: Trilu,
    /// Bytes per element.
    width: usize,
}

/// Rows of up to this many bytes are masked, which is faster than three calls.
const SHORT: usize = 512;
/// From byte `SHORT − n` on, the mask of a row whose first `n` bytes are removed, or kept.
static UPPER: [u8; 2 * SHORT] = masks(0, 0xFF);
static LOWER: [u8; 2 * SHORT] = masks(0xFF, 0);

const fn masks(first: u8, rest: u8) -> [u8; 2 * SHORT] {
    let (mut masks, mut i) = ([rest; 2 * SHORT], 0);
    while i < SHORT {
        masks[i] = first;
        i += 1;
    }
    masks
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let width = compiler.fact(0).and_then(Fact::dtype).and_then(DType::word_bytes);
    let (Some(&op), Some(width)) = (compiler.op::<Trilu>(), width) else { return Ok(None) };
    Ok(Some(Box::new(TriluKernel { op, width })))
}

impl TriluKernel {
    fn write<W: Word + Default>(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let &[.., n_rows, n_columns] = x.shape() else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        let (op, k) = (self.op, read_scalar(io.inputs, 1)?.unwrap_or(0));
        let y = io.outputs[0].tensor(x.dtype(), x.shape())?.into_words::<W>()?;
        let x = x.as_words::<W>()?;
        let each = BYTE * size_of::<W>();
        let rows = Rows { len: n_columns, cost: n_columns.saturating_mul(each) };
        rows.for_each(io.threads, y, |start, y| {
            let first = start / n_columns;
            let x = &x[start..][..y.len()];
            let pairs = x.chunks_exact(n_columns).zip(y.chunks_exact_mut(n_columns));
            for (i, (x, y)) in (first..).zip(pairs) {
                let kept = op.kept(i % n_rows, k, n_columns);
                if n_columns * size_of::<W>() <= SHORT {
                    let (masks, n) =
                        if op.is_upper { (&UPPER, kept.start) } else { (&LOWER, kept.end) };
                    let mask = &masks[SHORT - n * size_of::<W>()..];
                    let (x, y): (&[u8], &mut [u8]) = (cast_slice(x), cast_slice_mut(y));
                    for ((y, x), mask) in y.iter_mut().zip(x).zip(mask) {
                        *y = x & mask;
                    }
                    continue;
                }
                y[..kept.start].fill(W::default());
                y[kept.end..].fill(W::default());
                y[kept.clone()].copy_from_slice(&x[kept]);
            }
        });
        Ok(())
    }
}

impl Kernel for TriluKernel {
    fn prepare(&self, _: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.width {
            1 => self.write::<u8>(io),
            2 => self.write::<u16>(io),
            4 => self.write::<u32>(io),
            8 => self.write::<u64>(io),
            _ => self.write::<u128>(io),
        }
    }

    fn variant(&self) -> &'static str {
        "trilu"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Complex, Tensor};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn triangles_equal_eval() {
        let shapes: [&[usize]; 6] =
            [&[3, 5], &[2, 4, 4], &[5, 1], &[0, 3], &[3, 0], &[9, 130, 170]];
        for shape in shapes {
            for upper in [0, 1] {
                for k in [None, Some(0), Some(2), Some(-3), Some(i64::MAX), Some(i64::MIN)] {
                    let wide = |byte: u8| Complex::new(f64::from(byte), 1.0);
                    for x in [bytes(shape, |byte| byte), floats(shape), bytes(shape, wide)] {
                        let case = Case::new("Trilu", 14).attr("upper", Attr::Int(upper)).input(x);
                        match k {
                            Some(k) => case.input(Tensor::scalar(k)),
                            None => case,
                        }
                        .check(exact);
                    }
                }
            }
        }
    }
}
