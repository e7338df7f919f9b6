//! The compile API: the optimized model of a session, with weights packed for this machine, as a file or buffer.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use ort_session::Pack;

use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, Block, Destination, Memory, OutHandle, export};
use crate::session::{Source, with_listener};
use crate::session_options::SessionOptions;

/// `OrtModelCompilationOptions`: where the model is, and where the result goes.
#[derive(Debug)]
pub(crate) struct Compilation {
    options: SessionOptions,
    input: Option<Input>,
    output: Option<Output>,
}

#[derive(Debug)]
enum Input {
    File(PathBuf),
    /// Bytes that the program keeps.
    Bytes(Block),
}

#[derive(Debug)]
enum Output {
    File(PathBuf),
    Buffer(Destination),
}

impl Compilation {
    fn run(&self, env: &Env) -> Result<(), Error> {
        let no_input = || Error::invalid("Input model to compile has not been set");
        let input = self.input.as_ref().ok_or_else(no_input)?;
        let source = match input {
            Input::File(path) => Source::File(path),
            Input::Bytes(block) => Source::Bytes(block.bytes()),
        };
        let listener = self.options.listener(env);
        let optimize = || source.optimized(self.options.builder(env)?, &self.options);
        let bytes = with_listener(listener.as_ref(), optimize)?.to_packed_bytes(Pack::default())?;
        let path = match (&self.output, input) {
            (Some(Output::Buffer(destination)), _) => return destination.write(&bytes),
            (Some(Output::File(path)), _) => path.clone(),
            (None, Input::File(path)) => beside(path),
            (None, Input::Bytes(_)) => {
                return Err(Error::invalid("Output model path or buffer has not been set"));
            }
        };
        let failed = |error| Error::fail(format!("cannot write {}: {error}", path.display()));
        std::fs::write(&path, bytes).map_err(failed)
    }
}

/// `model.onnx` to `model_ctx.onnx`.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("_ctx.");
    name.push(path.extension().unwrap_or("onnx".as_ref()));
    path.with_file_name(name)
}

fn non_empty(path: &Path, name: &str) -> Result<PathBuf, Error> {
    match path.as_os_str().is_empty() {
        true => Err(Error::argument(name, "is empty")),
        false => Ok(path.to_owned()),
    }
}

export! {
    fn CreateModelCompilationOptionsFromSessionOptions(
        _env: &Env,
        session_options: &SessionOptions,
        out: OutHandle<'_, Compilation>,
    ) {
        out.set(Compilation { options: session_options.clone(), input: None, output: None });
        Ok(())
    }

    fn ReleaseModelCompilationOptions(options: Option<Box<Compilation>>) -> () = (); {
        drop(options);
        Ok(())
    }

    fn ModelCompilationOptions_SetInputModelPath(
        model_compile_options: &mut Compilation,
        input_model_path: &Path,
    ) {
        let path = non_empty(input_model_path, "input_model_path")?;
        model_compile_options.input = Some(Input::File(path));
        Ok(())
    }

    /// The program keeps the bytes until the model is compiled.
    fn ModelCompilationOptions_SetInputModelFromBuffer(
        model_compile_options: &mut Compilation,
        input_model_data: Memory<'_>[input_model_data_size],
        input_model_data_size: usize,
    ) {
        if input_model_data_size == 0 {
            return Err(Error::argument("input_model_data_size", "is 0"));
        }
        let block = Block::of_input(input_model_data.0);
        model_compile_options.input = Some(Input::Bytes(block));
        Ok(())
    }

    fn ModelCompilationOptions_SetOutputModelPath(
        model_compile_options: &mut Compilation,
        output_model_path: &Path,
    ) {
        let path = non_empty(output_model_path, "output_model_path")?;
        model_compile_options.output = Some(Output::File(path));
        Ok(())
    }

    /// Not implemented: packed files are one file.
    fn ModelCompilationOptions_SetOutputModelExternalInitializersFile(
        _model_compile_options: &mut Compilation,
        _external_initializers_file_path: &Path,
        _external_initializers_size_threshold: usize,
    ) {
        Err(Error::not_implemented(
            "ModelCompilationOptions_SetOutputModelExternalInitializersFile is not implemented",
        ))
    }

    /// The buffer comes from the allocator when the model is compiled.
    fn ModelCompilationOptions_SetOutputModelBuffer(
        model_compile_options: &mut Compilation,
        allocator: Allocator<'_>,
        output_model_buffer_ptr: *mut *mut c_void,
        output_model_buffer_size_ptr: *mut usize,
    ) {
        let (buffer, size) = (output_model_buffer_ptr, output_model_buffer_size_ptr);
        let destination = Destination::new(allocator, buffer, size)?;
        model_compile_options.output = Some(Output::Buffer(destination));
        Ok(())
    }

    /// Accepted: there are no EPContext nodes.
    fn ModelCompilationOptions_SetEpContextEmbedMode(
        _model_compile_options: &mut Compilation,
        _embed_ep_context_in_model: bool,
    ) {
        Ok(())
    }

    fn CompileModel(env: &Env, model_options: &Compilation) {
        model_options.run(env)
    }
}
