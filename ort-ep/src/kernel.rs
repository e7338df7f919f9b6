//! A compiled claim, and what a run lends it.

use std::any::Any;
use std::fmt::{self, Debug};

use ort_tensor::{Inputs, Output};
use smallvec::SmallVec;

use crate::error::KernelError;
use crate::threads::Threads;

/// One compiled claim. It never changes, so that any number of runs may share it.
pub trait Kernel: Debug + Send + Sync {
    /// Computes what depends on the input shapes alone, once for each signature of shapes: tile
    /// sizes, offsets, how much scratch memory a run needs. `shapes` has one entry for each input of
    /// the claim, empty for absent inputs and those that are no tensor.
    ///
    /// # Errors
    /// If the shapes do not fit.
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let _ = shapes;
        Ok(Prepared::default())
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// If the inputs are not what the operator allows.
    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError>;

    /// The variant that was chosen, for profiles: `gemm_f32/avx512_14x32`.
    fn variant(&self) -> &'static str {
        "eval"
    }

    /// Pairs (input, output) where the kernel can turn the input's value into the output, if the shape is not
    /// known before the run: see [`Output::take`].
    fn takes(&self) -> &'static [(usize, usize)] {
        &[]
    }

    /// Outputs that extend an input along an axis. Such an output may be [growing](Output::growing): it
    /// already holds the input, of which only type and shape are passed.
    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        SmallVec::new()
    }

    /// Whether runs can read this input with room along `axis`: it is then longer than
    /// [`prepare`](Kernel::prepare) was called for, and the elements beyond that length must be ignored.
    fn reads_room(&self, input: usize, axis: usize) -> bool {
        let _ = (input, axis);
        false
    }

    /// Whether runs read the elements of this input. They do not if it is a constant that the kernel
    /// has packed, whatever the shapes of the others: such a constant may come without elements.
    fn reads(&self, input: usize) -> bool {
        let _ = input;
        true
    }

    /// Whether most runs do not read the elements of this input: a constant whose elements are deferred stays so, until a run
    /// reads them.
    fn seldom_reads(&self, input: usize) -> bool {
        let _ = input;
        false
    }
}

/// An output that extends an input along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The position of the input.
    pub input: usize,
    /// The position of the output.
    pub output: usize,
    /// The axis.
    pub axis: usize,
}

/// What a kernel computed for one signature of input shapes.
#[derive(Default)]
pub struct Prepared {
    /// Scratch memory that a run needs in bytes, aligned to 64.
    pub scratch_bytes: usize,
    /// The kernel's own state.
    pub state: Option<Box<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// State without scratch.
    pub fn new(state: impl Any + Send + Sync) -> Self {
        Self { scratch_bytes: 0, state: Some(Box::new(state)) }
    }

    /// The same with scratch.
    #[must_use]
    pub fn with_scratch(self, scratch_bytes: usize) -> Self {
        Self { scratch_bytes, ..self }
    }

    /// The state that this kernel's `prepare` made.
    ///
    /// # Errors
    /// If it is another kernel's.
    pub fn state<T: Any>(&self) -> Result<&T, KernelError> {
        let state = self.state.as_ref().and_then(|state| state.downcast_ref());
        state.ok_or(KernelError::ForeignState)
    }
}

impl Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} bytes of scratch)", self.scratch_bytes)
    }
}

/// What a run lends a kernel.
#[derive(Debug)]
pub struct Io<'a, 'out> {
    /// The inputs of the claim, by position.
    pub inputs: Inputs<'a>,
    /// The outputs of the claim, by position.
    pub outputs: &'a mut [Output<'out>],
    /// The scratch memory that `prepare` requested, with any content, aligned to 64.
    pub scratch: &'a mut [u8],
    /// The threads of the run.
    pub threads: &'a dyn Threads,
}
