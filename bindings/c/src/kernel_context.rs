//! `OrtKernelContext`: the inputs and outputs of a custom kernel while it computes.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ort_session::provider::{Io, Output};
use ort_session::{DType, Threads, ValueView};
use ort_sys::{OrtAllocator, OrtSyncStream, OrtValue};

use crate::error::Error;
use crate::ffi::{Block, Out, OutRef, Part, PartFn, Shared, default_allocator, export, opaque};
use crate::kernel_info::KernelInfo;
use crate::kernel_logger::KernelLogger;
use crate::memory_info::MemoryInfo;
use crate::tensor_info::unsigned;
use crate::value::Value;

/// What a kernel computes, and with what.
#[derive(Debug)]
pub(crate) struct KernelContext<'a, 'out> {
    info: &'a KernelInfo,
    inputs: Vec<Option<Value>>,
    outputs: Mutex<&'a mut [Output<'out>]>,
    made: Vec<OnceLock<Value>>,
    rules: &'a OutputRules,
    /// The element type of outputs whose type the operator leaves open.
    dynamic: Option<DType>,
    scratch: Mutex<Vec<Block>>,
    threads: &'a dyn Threads,
}

/// What is known of a kernel's outputs before it computes.
#[derive(Debug)]
pub(crate) struct OutputRules {
    /// The element types; `None` is that of the inputs whose type is open.
    pub(crate) dtypes: Vec<Option<DType>>,
    /// The first input whose type is open.
    pub(crate) dynamic_input: Option<usize>,
    /// Pairs (input, output): the output begins as a copy of the input.
    pub(crate) aliases: Vec<(usize, usize)>,
}

impl<'a, 'out> KernelContext<'a, 'out> {
    pub(crate) fn new(
        info: &'a KernelInfo,
        rules: &'a OutputRules,
        io: &'a mut Io<'_, 'out>,
    ) -> Result<Self, Error> {
        let value = |index| match (info.constant(index), io.inputs.get(index)) {
            (Some(constant), _) => Ok(Some(constant.clone())),
            (None, Some(ValueView::Tensor(view))) => Value::of_view(view).map(Some),
            (None, Some(view)) => Ok(Some(Value::of_owned(view.to_value()?))),
            (None, None) => Ok(None),
        };
        let inputs: Result<Vec<_>, Error> = (0..io.inputs.len()).map(value).collect();
        let mut inputs = inputs?;
        let made: Vec<OnceLock<Value>> = io.outputs.iter().map(|_| OnceLock::new()).collect();
        for (output, made) in io.outputs.iter_mut().zip(&made) {
            if let Some((input, view)) = output.in_place_tensor() {
                // One value is input and output.
                let value = made.get_or_init(|| Value::of_view_mut(view));
                inputs[input] = Some(value.clone());
            }
        }
        let dynamic = rules.dynamic_input.and_then(|index| inputs.get(index)?.as_ref());
        let dynamic = dynamic.map(|value| Ok::<_, Error>(value.shape()?.0)).transpose()?;
        let (outputs, scratch) = (Mutex::new(&mut *io.outputs), Mutex::new(Vec::new()));
        Ok(Self { info, inputs, outputs, made, rules, dynamic, scratch, threads: io.threads })
    }

    fn outputs(&self) -> MutexGuard<'_, &'a mut [Output<'out>]> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output at this index, created with this shape; `None` if it is not wanted.
    fn output(&self, index: usize, shape: &[usize]) -> Result<Option<&Value>, Error> {
        let mut outputs = self.outputs();
        let n = outputs.len();
        let none = || Error::argument("index", format!("is {index}, and there are {n} outputs"));
        let output = outputs.get_mut(index).ok_or_else(none)?;
        if !output.is_wanted() {
            return Ok(None);
        }
        let made = match self.made[index].get() {
            Some(made) => made,
            None => {
                let value = self.created(output, index, shape)?;
                self.made[index].get_or_init(|| value)
            }
        };
        let (_, found) = made.shape()?;
        if found != shape {
            let text = format!("output {index} has shape {found:?}, not {shape:?}");
            return Err(Error::invalid(text));
        }
        Ok(Some(made))
    }

    fn created(
        &self,
        output: &mut Output<'_>,
        index: usize,
        shape: &[usize],
    ) -> Result<Value, Error> {
        let declared = self.rules.dtypes.get(index).copied().flatten();
        let unknown = || Error::fail(format!("the element type of output {index} is unknown"));
        let value = match declared.or(self.dynamic).ok_or_else(unknown)? {
            DType::String => return Value::of_strings(shape),
            dtype => Value::of_view_mut(output.tensor(dtype, shape)?),
        };
        let aliases = self.rules.aliases.iter().filter(|(_, output)| *output == index);
        for &(input, _) in aliases {
            if let Some(Some(input)) = self.inputs.get(input) {
                let (from, to) = (input.block()?.bytes(), value.block()?.bytes_mut());
                if from.len() == to.len() {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(value)
    }

    /// Passes strings on, and checks that nothing is missing.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let outputs = self.outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (index, (output, made)) in outputs.iter_mut().zip(self.made).enumerate() {
            match made.into_inner() {
                Some(value) if value.block().is_err() => output.set(value.to_owned_value()?)?,
                None if output.is_wanted() => {
                    return Err(Error::fail(format!("output {index} was not computed")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

export! {
    fn KernelContext_GetInputCount(context: &KernelContext<'_, '_>, out: Out<'_, usize>) {
        out.set(context.inputs.len());
        Ok(())
    }

    fn KernelContext_GetOutputCount(context: &KernelContext<'_, '_>, out: Out<'_, usize>) {
        out.set(context.made.len());
        Ok(())
    }

    /// Null for an absent input. The value lives as long as the context.
    fn KernelContext_GetInput(
        context: &KernelContext<'_, '_>,
        index: usize,
        out: Out<'_, *const OrtValue>,
    ) {
        let n = context.inputs.len();
        let none = || Error::argument("index", format!("is {index}, and there are {n} inputs"));
        let input = context.inputs.get(index).ok_or_else(none)?;
        out.set(input.as_ref().map_or(std::ptr::null(), opaque));
        Ok(())
    }

    /// Null for an absent output. The value lives as long as the context.
    fn KernelContext_GetOutput(
        context: Shared<'_, KernelContext<'_, '_>>,
        index: usize,
        dim_values: &[i64][dim_count],
        dim_count: usize,
        out: Out<'_, *mut OrtValue>,
    ) {
        let _ = dim_count;
        let output = context.output(index, &unsigned(dim_values)?)?;
        out.set(output.map_or(null_mut(), |value| opaque(value).cast_mut()));
        Ok(())
    }

    /// The output, if it exists: it overwrites an input, or `GetOutput` has created it. Null otherwise: the kernel creates it.
    fn KernelContext_GetPreallocatedOutput(
        context: &KernelContext<'_, '_>,
        output_index: usize,
        output: Out<'_, *mut OrtValue>,
    ) {
        let n = context.made.len();
        let none = || Error::argument("output_index", format!("is {output_index}, and there are {n} outputs"));
        let made = context.made.get(output_index).ok_or_else(none)?;
        output.set(made.get().map_or(null_mut(), |value| opaque(value).cast_mut()));
        Ok(())
    }

    fn KernelContext_GetLogger(
        context: &KernelContext<'_, '_>,
        logger: OutRef<'_, KernelLogger>,
    ) {
        logger.set(context.info.logger());
        Ok(())
    }

    /// The only allocator.
    fn KernelContext_GetAllocator(
        _context: &KernelContext<'_, '_>,
        mem_info: &MemoryInfo,
        out: Out<'_, *mut OrtAllocator>,
    ) {
        mem_info.expect_cpu()?;
        out.set(default_allocator().as_ptr());
        Ok(())
    }

    /// Memory until the kernel returns.
    fn KernelContext_GetScratchBuffer(
        context: &KernelContext<'_, '_>,
        mem_info: &MemoryInfo,
        count_or_bytes: usize,
        out: Out<'_, *mut c_void>,
    ) {
        mem_info.expect_cpu()?;
        let block = default_allocator().block(count_or_bytes)?;
        out.set(block.as_ptr());
        context.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        Ok(())
    }

    /// Calls the function with each number below `total`, on the threads of the run.
    fn KernelContext_ParallelFor(
        context: &KernelContext<'_, '_>,
        fn_: Option<PartFn>,
        total: usize,
        num_batch: usize,
        usr_data: *mut c_void,
    ) {
        let part = Part::new(fn_.ok_or_else(|| Error::null("fn"))?, usr_data);
        let n_batches = if num_batch == 0 { context.threads.count() * 4 } else { num_batch };
        let n_batches = n_batches.clamp(1, total.max(1));
        let (each, more) = (total / n_batches, total % n_batches);
        context.threads.for_each(n_batches, &|batch| {
            let start = batch * each + batch.min(more);
            (start..start + each + usize::from(batch < more)).for_each(|i| part.call(i));
        });
        Ok(())
    }

    /// Kernels of the CPU have no resources of devices.
    fn KernelContext_GetResource(
        _context: &KernelContext<'_, '_>,
        _resouce_version: i32,
        resource_id: i32,
        _resource: Out<'_, *mut c_void>,
    ) {
        let text = format!("KernelContext_GetResource: the CPU provider has no resource {resource_id}");
        Err(Error::not_implemented(text))
    }

    /// Null: the CPU has no streams.
    fn KernelContext_GetGPUComputeStream(
        _context: &KernelContext<'_, '_>,
        out: Out<'_, *mut c_void>,
    ) {
        out.set(null_mut());
        Ok(())
    }

    /// Null: the CPU has no streams.
    fn KernelContext_GetSyncStream(
        _context: &KernelContext<'_, '_>,
        out: Out<'_, *mut OrtSyncStream>,
    ) {
        out.set(null_mut());
        Ok(())
    }
}
