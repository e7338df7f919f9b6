//! The tables besides the main one: model editor and compile API.
//!
//! Programs find functions behind the last one of each that return `ORT_NOT_IMPLEMENTED`, as they would in a library without these functions.

#![expect(
    clippy::missing_transmute_annotations,
    reason = "the type of the table's field is the annotation"
)]
#![expect(non_snake_case, reason = "names of the C API")]

use std::ptr::null;

use ort_sys::{OrtCompileApi, OrtModelEditorApi, OrtStatusPtr};

use crate::error::Error;
use crate::ffi::{CompileApi, export, guard, with_enums};
use crate::{compile, editor, editor_session, editor_types};

/// A table, with room for functions that are not declared.
#[repr(C)]
struct Longer<T> {
    api: T,
    rest: [extern "system" fn() -> OrtStatusPtr; 32],
}

extern "system" fn undeclared() -> OrtStatusPtr {
    guard(|| Err(Error::not_implemented("a function of a newer API is not implemented")))
}

static EDITOR: Longer<OrtModelEditorApi> = Longer {
    api: OrtModelEditorApi {
        CreateTensorTypeInfo: editor_types::CreateTensorTypeInfo,
        CreateSparseTensorTypeInfo: editor_types::CreateSparseTensorTypeInfo,
        CreateMapTypeInfo: with_enums!(editor_types::CreateMapTypeInfo as fn(_, _, _)),
        CreateSequenceTypeInfo: editor_types::CreateSequenceTypeInfo,
        CreateOptionalTypeInfo: editor_types::CreateOptionalTypeInfo,
        CreateValueInfo: editor_types::CreateValueInfo,
        CreateNode: editor::CreateNode,
        CreateGraph: editor::CreateGraph,
        SetGraphInputs: editor::SetGraphInputs,
        SetGraphOutputs: editor::SetGraphOutputs,
        AddInitializerToGraph: editor::AddInitializerToGraph,
        AddNodeToGraph: editor::AddNodeToGraph,
        CreateModel: editor::CreateModel,
        AddGraphToModel: editor::AddGraphToModel,
        CreateSessionFromModel: editor::CreateSessionFromModel,
        CreateModelEditorSession: editor_session::CreateModelEditorSession,
        CreateModelEditorSessionFromArray: editor_session::CreateModelEditorSessionFromArray,
        SessionGetOpsetForDomain: editor_session::SessionGetOpsetForDomain,
        ApplyModelToModelEditorSession: editor_session::ApplyModelToModelEditorSession,
        FinalizeModelEditorSession: editor_session::FinalizeModelEditorSession,
    },
    rest: [undeclared; 32],
};

static COMPILE: Longer<CompileApi> = Longer {
    api: CompileApi {
        api: OrtCompileApi {
            ReleaseModelCompilationOptions: compile::ReleaseModelCompilationOptions,
            CreateModelCompilationOptionsFromSessionOptions:
                compile::CreateModelCompilationOptionsFromSessionOptions,
            ModelCompilationOptions_SetInputModelPath:
                compile::ModelCompilationOptions_SetInputModelPath,
            ModelCompilationOptions_SetInputModelFromBuffer:
                compile::ModelCompilationOptions_SetInputModelFromBuffer,
            ModelCompilationOptions_SetOutputModelPath:
                compile::ModelCompilationOptions_SetOutputModelPath,
            ModelCompilationOptions_SetOutputModelExternalInitializersFile:
                compile::ModelCompilationOptions_SetOutputModelExternalInitializersFile,
            ModelCompilationOptions_SetOutputModelBuffer:
                compile::ModelCompilationOptions_SetOutputModelBuffer,
            ModelCompilationOptions_SetEpContextEmbedMode:
                compile::ModelCompilationOptions_SetEpContextEmbedMode,
            CompileModel: compile::CompileModel,
        },
        set_flags: compile::ModelCompilationOptions_SetFlags,
        set_ep_context_binary_information:
            compile::ModelCompilationOptions_SetEpContextBinaryInformation,
        set_graph_optimization_level: compile::ModelCompilationOptions_SetGraphOptimizationLevel,
        set_output_model_write_func: compile::ModelCompilationOptions_SetOutputModelWriteFunc,
        set_output_model_get_initializer_location_func:
            compile::ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc,
        set_input_model: compile::ModelCompilationOptions_SetInputModel,
        set_ep_context_data_write_func: compile::ModelCompilationOptions_SetEpContextDataWriteFunc,
    },
    rest: [undeclared; 32],
};

export! {
    fn GetModelEditorApi() -> *const OrtModelEditorApi = null(); {
        Ok((&raw const EDITOR).cast())
    }

    fn GetCompileApi() -> *const OrtCompileApi = null(); {
        Ok((&raw const COMPILE).cast())
    }
}
