//! The compile API: the optimized model of a session, as a file, a buffer, or what a program's function writes.
//!
//! Weights are packed for this machine. Only if initializers are stored elsewhere the result is an ordinary `.onnx` model:
//! packed weights are in one file with the model.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use ort_session::{Optimized, Pack};
use ort_sys::{OrtGetInitializerLocationFunc, OrtWriteBufferFunc, OrtWriteNamedBufferFunc};

use crate::editor::EditedModel;
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{
    Allocator, Block, Destination, Locator, Memory, OutHandle, UserData, Writer, export,
};
use crate::initializer_file::InitializerFile;
use crate::model_source::Source;
use crate::session::with_listener;
use crate::session_options::SessionOptions;
use crate::value::Value;

/// `OrtModelCompilationOptions`: where the model is, and where the result goes.
#[derive(Debug)]
pub(crate) struct Compilation {
    options: SessionOptions,
    input: Option<Input>,
    output: Option<Output>,
    initializers: Option<Elsewhere>,
    /// Whether a file is not replaced.
    keeps_files: bool,
}

#[derive(Debug)]
enum Input {
    File(PathBuf),
    /// Bytes that the program keeps.
    Bytes(Block),
    /// Made by the program in memory.
    Model(EditedModel),
}

#[derive(Debug)]
enum Output {
    File(PathBuf),
    Buffer(Destination),
    Function(Writer),
}

/// Where initializers are stored, other than in the model.
#[derive(Debug)]
enum Elsewhere {
    /// In a file, relative to the model's folder, if they have more bytes than this.
    File(PathBuf, usize),
    /// Where a function of the program says.
    Function(Locator),
}

/// `OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS`.
const KEEPS_FILES: u32 = 1 << 1;

impl Compilation {
    fn run(&self, env: &Env) -> Result<(), Error> {
        let no_input = || Error::invalid("Input model to compile has not been set");
        let input = self.input.as_ref().ok_or_else(no_input)?;
        let file = self.output_file(input)?;
        let source = match input {
            Input::File(path) => Source::File(path),
            Input::Bytes(block) => Source::Bytes(block.bytes()),
            Input::Model(model) => Source::Model(Box::new(model.to_model()?)),
        };
        let listener = self.options.listener(env);
        let optimize = || source.optimized(self.options.builder(env)?, &self.options);
        let optimized = with_listener(listener.as_ref(), optimize)?;
        let bytes = self.bytes(&optimized, file.as_deref())?;
        match (&self.output, file) {
            (Some(Output::Buffer(destination)), _) => destination.write(&bytes),
            (Some(Output::Function(writer)), _) => writer.write(&bytes),
            (_, Some(path)) => std::fs::write(&path, bytes)
                .map_err(|error| Error::fail(format!("cannot write {}: {error}", path.display()))),
            (_, None) => Err(Error::invalid("the output is not a file")),
        }
    }

    /// The file of the result, if it is one.
    fn output_file(&self, input: &Input) -> Result<Option<PathBuf>, Error> {
        let path = match (&self.output, input) {
            (Some(Output::Buffer(_) | Output::Function(_)), _) => return Ok(None),
            (Some(Output::File(path)), _) => path.clone(),
            (None, Input::File(path)) => beside(path),
            (None, Input::Bytes(_) | Input::Model(_)) => {
                return Err(Error::invalid("Output model path or buffer has not been set"));
            }
        };
        match self.keeps_files && path.exists() {
            true => Err(Error::fail(format!("Output model file {} exists", path.display()))),
            false => Ok(Some(path)),
        }
    }

    fn bytes(&self, optimized: &Optimized, model: Option<&Path>) -> Result<Vec<u8>, Error> {
        match &self.initializers {
            None => Ok(optimized.to_packed_bytes(Pack::default())?),
            Some(Elsewhere::File(path, threshold)) => {
                let mut file = InitializerFile::create(path, model)?;
                let bytes = optimized.to_onnx_bytes_with_external(&mut |_, elements| {
                    let is_large = elements.n_bytes() > *threshold;
                    is_large.then(|| file.add(&elements)).transpose()
                })?;
                file.finish()?;
                Ok(bytes)
            }
            Some(Elsewhere::Function(locator)) => {
                optimized.to_onnx_bytes_with_external(&mut |name, elements| {
                    let info = locator.locate(name, &Value::of_constant(elements)?)?;
                    info.map(|info| info.to_elements()).transpose()
                })
            }
        }
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
        out.set(Compilation {
            options: session_options.clone(),
            input: None,
            output: None,
            initializers: None,
            keeps_files: false,
        });
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

    /// A relative path is one in the folder of the result.
    fn ModelCompilationOptions_SetOutputModelExternalInitializersFile(
        model_compile_options: &mut Compilation,
        external_initializers_file_path: &Path,
        external_initializers_size_threshold: usize,
    ) {
        let path = non_empty(external_initializers_file_path, "external_initializers_file_path")?;
        let elsewhere = Elsewhere::File(path, external_initializers_size_threshold);
        model_compile_options.initializers = Some(elsewhere);
        Ok(())
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

    /// The level of the session options otherwise.
    fn ModelCompilationOptions_SetGraphOptimizationLevel(
        model_compile_options: &mut Compilation,
        graph_optimization_level: i32,
    ) {
        model_compile_options.options.set_level(graph_optimization_level)
    }

    /// That no node is compiled is not an error that can occur: the CPU provider compiles all.
    fn ModelCompilationOptions_SetFlags(model_compile_options: &mut Compilation, flags: u32) {
        model_compile_options.keeps_files = flags & KEEPS_FILES != 0;
        Ok(())
    }

    /// Accepted: there are no EPContext nodes.
    fn ModelCompilationOptions_SetEpContextBinaryInformation(
        _model_compile_options: &mut Compilation,
        output_directory: &Path,
        model_name: &Path,
    ) {
        non_empty(output_directory, "output_directory")?;
        non_empty(model_name, "model_name")?;
        Ok(())
    }

    /// Accepted and never called: there are no EPContext nodes.
    fn ModelCompilationOptions_SetEpContextDataWriteFunc(
        _model_compile_options: &mut Compilation,
        write_func: OrtWriteNamedBufferFunc,
        _state: *mut c_void,
    ) {
        write_func.map(drop).ok_or_else(|| Error::null("write_func"))
    }

    /// The function is called with the whole model.
    fn ModelCompilationOptions_SetOutputModelWriteFunc(
        model_compile_options: &mut Compilation,
        write_func: OrtWriteBufferFunc,
        state: *mut c_void,
    ) {
        let function = Some(write_func.ok_or_else(|| Error::null("write_func"))?);
        let writer = Writer { function, state: UserData(state) };
        model_compile_options.output = Some(Output::Function(writer));
        Ok(())
    }

    /// The function is called with each initializer of the optimized model that is not of strings; none of them has an
    /// original location.
    fn ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(
        model_compile_options: &mut Compilation,
        get_initializer_location_func: OrtGetInitializerLocationFunc,
        state: *mut c_void,
    ) {
        let missing = || Error::null("get_initializer_location_func");
        let function = Some(get_initializer_location_func.ok_or_else(missing)?);
        let locator = Locator { function, state: UserData(state) };
        model_compile_options.initializers = Some(Elsewhere::Function(locator));
        Ok(())
    }

    /// What the program adds to it until it is compiled counts.
    fn ModelCompilationOptions_SetInputModel(
        model_compile_options: &mut Compilation,
        model: &EditedModel,
    ) {
        model_compile_options.input = Some(Input::Model(model.clone()));
        Ok(())
    }

    fn CompileModel(env: &Env, model_options: &Compilation) {
        model_options.run(env)
    }
}
