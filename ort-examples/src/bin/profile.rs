//! Prints a session's memory by purpose, and a run's time by step.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::time::Duration;

use ort_session::{DType, Dim, Session, Tensor, Type};

fn main() -> Result<(), Box<dyn Error>> {
    let model = std::env::args().nth(1).ok_or("usage: profile MODEL")?;
    let session = Session::builder().commit_from_file(model)?;
    let mut inputs = Vec::new();
    for input in session.inputs() {
        inputs.push((input.name, zeros(&input.ty)?));
    }
    let inputs = || inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect::<Vec<_>>();

    session.run(inputs())?; // the first run with these shapes also plans its memory
    let (_, mut steps) = session.run_profiled(inputs())?;
    let total: Duration = steps.iter().map(|step| step.time).sum();
    println!("{} steps, {total:.1?}", steps.len());
    steps.sort_by_key(|step| std::cmp::Reverse(step.time));
    for step in steps.iter().take(5) {
        let (time, work) = (step.time, &step.work);
        println!("{time:10.1?}  {} {} ({})", work.op_type, work.node, work.variant);
    }

    let memory = session.memory();
    let row = |what: &str, n_bytes: usize| println!("{:10} KiB  {what}", n_bytes / 1024);
    row("the model's bytes", memory.model.whole.virtual_bytes);
    row("constants used in place in the file", memory.weights_mapped.usage.virtual_bytes);
    let copied = memory.weights_copied.iter().map(|(_, held)| held.usage.virtual_bytes).sum();
    row("constants computed or copied while loading", copied);
    row("constants packed for kernels", memory.packed_heap.usage.virtual_bytes);
    row("activations of the largest run", memory.activations_planned.largest);
    row("graph and plan, estimated", memory.objects.graph + memory.objects.plan);
    Ok(())
}

/// Zeros of an input's type. Of free dimensions, the first is 1 and others are 48, which suits most images and
/// texts.
fn zeros(ty: &Type) -> Result<Tensor, Box<dyn Error>> {
    let Type::Tensor(tensor) = ty else { return Err(format!("no zeros of type {ty}").into()) };
    let mut shape = Vec::new();
    for (axis, dim) in tensor.dims.iter().flatten().enumerate() {
        shape.push(match dim {
            Dim::Known(n) => *n,
            _ if axis == 0 => 1,
            _ => 48,
        });
    }
    match tensor.dtype {
        DType::String => Err("no zeros of strings".into()),
        dtype => Ok(Tensor::zeros(dtype, &shape)?),
    }
}
