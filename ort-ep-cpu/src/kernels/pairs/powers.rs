//! Pow with an exponent of the type of the base.

use ort_ep::{Io, KernelError};
use ort_kernels::Isa;
use ort_kernels::vec::{self, Lane};
use ort_ops::ops::pow::{power, power_of_integers};
use ort_tensor::{DType, with_dtype};

use super::Call;

/// Whether there is a loop for bases and exponents of these types.
pub(super) fn is_known(dtypes: [Option<DType>; 2]) -> bool {
    let [base, exponent] = dtypes;
    base == exponent && matches!(base, Some(DType::F32 | DType::F64 | DType::I32 | DType::I64))
}

impl Call<'_> {
    pub(super) fn power(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        if self.dtype == DType::F32 {
            return self.combine_by::<f32>(io, &|x, e, y| {
                match x {
                    Lane::Row(x) => y.copy_from_slice(x),
                    Lane::Same(x) => y.fill(x),
                }
                vec::pow(self.isa, y, e);
            });
        }
        // Powers of single elements do not vectorise.
        let plain = Call { isa: Isa::Generic, ..*self };
        with_dtype!(self.dtype, [i32, i64],
            T => plain.combine(io, |x: T, e: T| power_of_integers(x, e.into())),
            else => plain.combine(io, power))
    }
}
