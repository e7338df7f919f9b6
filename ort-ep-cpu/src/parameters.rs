//! The inputs of a node after the first, where what is prepared depends on their contents.

use ort_tensor::{Inputs, Tensor, ValueView};

use crate::kernels::Compiler;

/// The inputs after the first, all of them absent or constant.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<Option<Tensor>>);

impl Parameters {
    /// The parameters of a claim; `None` if one is not constant.
    pub(crate) fn of(compiler: &Compiler<'_>) -> Option<Self> {
        let constant = |input: usize| match compiler.fact(input) {
            None => Some(None),
            Some(_) => compiler.constant(input).cloned().map(Some),
        };
        // bounded: by the number of inputs
        (1..compiler.claim.inputs.len()).map(constant).collect::<Option<_>>().map(Self)
    }

    /// Calls `plan` with the inputs, of which the first is absent.
    pub(crate) fn with<T>(&self, plan: impl FnOnce(Inputs<'_>) -> T) -> T {
        let views =
            self.0.iter().map(|tensor| tensor.as_ref().map(|it| ValueView::Tensor(it.view())));
        // bounded: by the number of inputs
        let inputs: Vec<_> = [None].into_iter().chain(views).collect();
        plan(Inputs::new(&inputs))
    }
}
