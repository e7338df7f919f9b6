//! Copies of runs of bytes, by their length.

/// The minimum run length in bytes for which calling a copy function is worthwhile.
pub(crate) const LONG: usize = 256;

/// A method of copying a run.
pub(crate) trait Run: Copy {
    /// Its length in bytes.
    fn len(self) -> usize;

    /// Copies the first `len()` bytes of `x` to `y`.
    ///
    /// # Panics
    /// If either is shorter.
    fn copy(self, x: &[u8], y: &mut [u8]);
}

/// A compile-time constant length.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<const N: usize>;

impl<const N: usize> Run for Fixed<N> {
    #[inline]
    fn len(self) -> usize {
        N
    }

    #[inline]
    fn copy(self, x: &[u8], y: &mut [u8]) {
        copy_block::<N>(x, y);
    }
}

/// At least `N` bytes: in blocks, the last of which may overlap the one before.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<const N: usize>(pub(crate) usize);

impl<const N: usize> Run for Blocks<N> {
    #[inline]
    fn len(self) -> usize {
        self.0
    }

    #[inline]
    fn copy(self, x: &[u8], y: &mut [u8]) {
        let mut at = 0;
        while at + N <= self.0 {
            copy_block::<N>(&x[at..], &mut y[at..]);
            at += N;
        }
        if at < self.0 {
            copy_block::<N>(&x[self.0 - N..], &mut y[self.0 - N..]);
        }
    }
}

/// The first `N` bytes.
#[inline]
fn copy_block<const N: usize>(x: &[u8], y: &mut [u8]) {
    let there = "invariant: a run is there";
    *y.first_chunk_mut::<N>().expect(there) = *x.first_chunk::<N>().expect(there);
}

/// Long enough that a call is cheap in comparison.
#[derive(Clone, Copy)]
pub(crate) struct Long(pub(crate) usize);

impl Run for Long {
    #[inline]
    fn len(self) -> usize {
        self.0
    }

    fn copy(self, x: &[u8], y: &mut [u8]) {
        y[..self.0].copy_from_slice(&x[..self.0]);
    }
}

/// `by_run!(len => f(arguments))`: calls `f` with the method for runs of this length, and the arguments.
macro_rules! by_run {
    ($len:expr => $f:ident($($argument:expr),*)) => {
        match $len {
            1 => $f($crate::run::Fixed::<1>, $($argument),*),
            2 => $f($crate::run::Fixed::<2>, $($argument),*),
            4 => $f($crate::run::Fixed::<4>, $($argument),*),
            8 => $f($crate::run::Fixed::<8>, $($argument),*),
            16 => $f($crate::run::Fixed::<16>, $($argument),*),
            32 => $f($crate::run::Fixed::<32>, $($argument),*),
            64 => $f($crate::run::Fixed::<64>, $($argument),*),
            128 => $f($crate::run::Fixed::<128>, $($argument),*),
            len @ ..8 => $f($crate::run::Blocks::<1>(len), $($argument),*),
            len @ ..32 => $f($crate::run::Blocks::<8>(len), $($argument),*),
            len @ ..$crate::run::LONG => $f($crate::run::Blocks::<32>(len), $($argument),*),
            len => $f($crate::run::Long(len), $($argument),*),
        }
    };
}

pub(crate) use by_run;
