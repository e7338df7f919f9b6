//! The mean and the variance of f32 elements.

use ort_kernels::Isa;
use ort_kernels::vec::{FoldOf, fold_rows_of, sum_of_squared_deviations};
use ort_tensor::Pace;

/// Elements whose squared deviations are one term of an f64 sum: the rounding error grows with the length of a sum in f32.
const TERM: usize = 1 << 12;

/// Both, exact to the rounding of sums; of fewer elements once the run is cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) mean: f64,
    /// The mean of squared deviations from the mean.
    pub(crate) variance: f64,
}

impl Moments {
    /// Of all elements of these rows, which are read twice.
    #[expect(clippy::cast_possible_truncation, reason = "the variance is corrected")]
    pub(crate) fn of<'x>(isa: Isa, rows: impl Iterator<Item = &'x [f32]> + Clone) -> Self {
        let mut pace = Pace::new();
        let terms = rows.flat_map(|row| row.chunks(TERM));
        let (mut sum, mut count) = ([0.0], 0);
        let mut total = 0.0;
        for x in terms.clone().take_while(|x| pace.go(x.len()).is_ok()) {
            fold_rows_of(isa, Total, x, &mut sum);
            total += sum[0];
            count += x.len();
        }
        let count = count as f64;
        let mean = total / count;
        let near = mean as f32;
        let terms = terms.take_while(|x| pace.go(x.len()).is_ok());
        let squares: f64 = terms.map(|x| f64::from(sum_of_squared_deviations(isa, x, near))).sum();
        let rest = mean - f64::from(near);
        Self { mean, variance: (squares / count - rest * rest).max(0.0) }
    }
}

/// The sum in f64.
#[derive(Clone, Copy, Default)]
struct Total;

impl FoldOf<f32> for Total {
    type Sum = f64;

    const START: f64 = 0.0;

    #[inline(always)]
    fn step(sum: f64, x: f32) -> f64 {
        sum + f64::from(x)
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}
