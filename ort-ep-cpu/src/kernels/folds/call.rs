//! One run of a reduction: selects the fold, and divides the work among threads.

use ort_ep::{Io, KernelError};
use ort_kernels::Isa;
use ort_kernels::vec::{Block, FoldOf, fold_block, fold_columns_of, fold_rows_of};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::reduce::Form;
use ort_tensor::{Bool, Element, Number};

use super::Plan;
use super::sums::{
    All, Any, ExactSum, ExactSumOfSquares, Greatest, Halves, Least, Product, Root, Sum,
    SumOfMagnitudes, SumOfSquares, Summed,
};
use crate::pieces::{Rows, elements_as, elements_of};

/// Columns folded at a time.
const COLUMNS: usize = 128;

/// The operands of a run.
pub(super) struct Call<'a> {
    pub(super) isa: Isa,
    pub(super) shape: &'a [usize],
    pub(super) plan: &'a Plan,
}

impl Call<'_> {
    /// The forms that every type has.
    pub(super) fn extreme<T: Summed>(
        &self,
        form: Form,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        match form {
            Form::Max => self.fold::<T, _>(Greatest, io, T::narrow),
            Form::Min => self.fold::<T, _>(Least, io, T::narrow),
            _ => Err(KernelError::ForeignState),
        }
    }

    pub(super) fn integer<T: Summed>(
        &self,
        form: Form,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        match form {
            Form::Sum => self.fold::<T, _>(Sum, io, T::narrow),
            Form::Prod => self.fold::<T, _>(Product, io, T::narrow),
            Form::SumSquare => self.fold::<T, _>(SumOfSquares, io, T::narrow),
            Form::L1 => self.fold::<T, _>(SumOfMagnitudes, io, T::narrow),
            form => self.extreme::<T>(form, io),
        }
    }

    /// The forms of 32-bit integers that need their exact sums, and all others.
    pub(super) fn words(&self, form: Form, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let n = i64::try_from(self.plan.n).map_err(|_| KernelError::ForeignState)?;
        match form {
            Form::Mean => {
                self.fold::<i32, _>(ExactSum, io, |sum| Number::from_f64((sum / n) as f64))
            }
            Form::LogSum => {
                self.fold::<i32, _>(ExactSum, io, |sum| Number::from_f64((sum as f64).ln()))
            }
            Form::L2 => {
                let root = |sum: Halves| Number::from_f64((sum.sum() as f64).sqrt());
                self.fold::<i32, _>(ExactSumOfSquares, io, root)
            }
            form => self.integer::<i32>(form, io),
        }
    }

    /// The same for 64-bit integers.
    pub(super) fn long_words(&self, form: Form, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let n = i64::try_from(self.plan.n).map_err(|_| KernelError::ForeignState)?;
        match form {
            Form::Mean => self.fold::<i64, _>(ExactSum, io, |sum| mean(sum.sum(), n)),
            Form::LogSum => {
                self.fold::<i64, _>(ExactSum, io, |sum| Number::from_f64((sum.sum() as f64).ln()))
            }
            Form::L2 => {
                let root = |sum: i128| Number::from_f64((sum as f64).sqrt());
                self.fold::<i64, _>(ExactSumOfSquares, io, root)
            }
            form => self.integer::<i64>(form, io),
        }
    }

    pub(super) fn float<T: Summed>(
        &self,
        form: Form,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError>
    where
        T::Of: Root,
    {
        let n = T::Of::of_len(self.plan.n);
        match form {
            Form::Mean => self.fold::<T, _>(Sum, io, |sum| T::narrow(sum.div(n))),
            Form::L2 => self.fold::<T, _>(SumOfSquares, io, |sum| T::narrow(sum.root())),
            Form::LogSum => self.fold::<T, _>(Sum, io, |sum| T::narrow(sum.logarithm())),
            form => self.integer::<T>(form, io),
        }
    }

    pub(super) fn flags(&self, form: Form, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let flag = |flag: u8| Bool::from(flag != 0);
        match form {
            Form::Max => self.fold::<Bool, _>(Any, io, flag),
            Form::Min => self.fold::<Bool, _>(All, io, flag),
            _ => Err(KernelError::ForeignState),
        }
    }

    /// `y = finish(fold of x)`.
    fn fold<T: Element, F: FoldOf<T>>(
        &self,
        _fold: F,
        io: &mut Io<'_, '_>,
        finish: impl Fn(F::Sum) -> T + Sync,
    ) -> Result<(), KernelError>
    where
        F::Sum: Send + Sync,
    {
        self.fold_by(&Loops::of::<F>(), io, &finish)
    }

    /// [`Call::fold`], compiled once for all folds of a type.
    fn fold_by<T: Element, S: Copy + Send + Sync>(
        &self,
        loops: &Loops<T, S>,
        io: &mut Io<'_, '_>,
        finish: &(dyn Fn(S) -> T + Sync),
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = elements_of::<T>(io.outputs[0].tensor(x.dtype(), self.shape)?)?;
        let x = elements_as::<T>(x)?;
        let &Plan { last, is_last_reduced, n, .. } = self.plan;
        if is_last_reduced {
            let rows = Rows { len: 16, cost: n.saturating_mul(16).saturating_add(64) };
            rows.for_each(io.threads, y, |start, y| {
                if self.plan.has_rows() {
                    for (i, y) in y.chunks_mut(COLUMNS).enumerate() {
                        let x = &x[(start + i * COLUMNS) * last..][..y.len() * last];
                        let mut sums = [loops.start; COLUMNS];
                        let sums = &mut sums[..y.len()];
                        (loops.rows)(self.isa, x, sums);
                        y.iter_mut().zip(sums).for_each(|(y, sum)| *y = finish(*sum));
                    }
                    return;
                }
                for (i, y) in (start..).zip(y) {
                    let block = self.plan.block(x, self.plan.start(i), last);
                    *y = finish((loops.block)(self.isa, block));
                }
            });
            return Ok(());
        }
        let len = COLUMNS.min(last);
        let rows = Rows { len, cost: n.saturating_mul(2 * len).saturating_add(64) };
        rows.for_each(io.threads, y, |start, y| {
            let mut sums = [loops.start; COLUMNS];
            self.plan.for_each_piece(start, y, COLUMNS, |from, y| {
                let (block, sums) = (self.plan.block(x, from, y.len()), &mut sums[..y.len()]);
                (loops.columns)(self.isa, block, sums);
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = finish(*sum));
            });
        });
        Ok(())
    }
}

/// `sum / n` towards 0. Division of 128 bits takes ten times as long as that of 64.
#[expect(clippy::cast_possible_truncation, reason = "a mean is between elements")]
fn mean(sum: i128, n: i64) -> i64 {
    i64::try_from(sum).map_or_else(|_| (sum / i128::from(n)) as i64, |sum| sum / n)
}

/// The loops of a fold.
struct Loops<T, S> {
    start: S,
    rows: fn(Isa, &[T], &mut [S]),
    block: fn(Isa, Block<'_, T>) -> S,
    columns: fn(Isa, Block<'_, T>, &mut [S]),
}

impl<T: Element, S: Copy> Loops<T, S> {
    fn of<F: FoldOf<T, Sum = S>>() -> Self {
        Self {
            start: F::START,
            rows: |isa, x, sums| fold_rows_of(isa, F::default(), x, sums),
            block: |isa, block| fold_block(isa, F::default(), block),
            columns: |isa, block, sums| fold_columns_of(isa, F::default(), block, sums),
        }
    }
}
