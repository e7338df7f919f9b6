//! A provider that claims only `Add`, and calls a hook of the test for each computation.

use std::fmt;
use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_tensor::DType;

use crate::taking::Taking;

/// What a test does in the middle of a run.
type Hook = Arc<dyn Fn(&dyn Threads) + Send + Sync>;

/// What it does while the kernel prepares.
type Preparing = Arc<dyn Fn() -> Result<(), KernelError> + Send + Sync>;

/// Adds with its own kernel, which calls a hook first.
#[derive(Clone)]
pub(crate) struct Hooked {
    run: Hook,
    prepare: Preparing,
}

impl Hooked {
    pub(crate) fn new(hook: impl Fn(&dyn Threads) + Send + Sync + 'static) -> Arc<Taking<Self>> {
        Taking::new("Add", Self { run: Arc::new(hook), prepare: Arc::new(|| Ok(())) })
    }

    /// The same with a hook that is called while the kernel prepares.
    pub(crate) fn preparing(
        hook: impl Fn() -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Arc<Taking<Self>> {
        Taking::new("Add", Self { run: Arc::new(|_| {}), prepare: Arc::new(hook) })
    }

    /// The same with a hook that is called when a node is compiled.
    pub(crate) fn compiling(hook: impl Fn() + Send + Sync + 'static) -> Arc<Taking<Self>> {
        Taking::compiling("Add", Self { run: Arc::new(|_| {}), prepare: Arc::new(|| Ok(())) }, hook)
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl Kernel for Hooked {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        (self.prepare)()?;
        Ok(Prepared::default())
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        (self.run)(io.threads);
        let (a, b) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let sum = io.outputs[0].tensor(DType::F32, a.shape())?.into_slice::<f32>()?;
        let b = b.as_slice::<f32>()?.iter().cycle();
        for ((sum, a), b) in sum.iter_mut().zip(a.as_slice::<f32>()?).zip(b) {
            *sum = a + b;
        }
        Ok(())
    }
}
