//! The types of all errors are accessible through `ort_session`, without other crates.

use ort_session::provider::{Fact, Facts, Graph, Memory, Registry};
use ort_session::{
    AssumedBlockSize, Contradiction, CycleError, Dims, ElementsError, EvalError, ExportError,
    FormatDamage, FormatError, FormatFault, GraphError, ImportError, InferError, KernelError,
    Level, LimitError, LoadError, LoadLimitError, ModelBytes, NchwcError, OnnxDamage, OnnxError,
    OpError, OptimizeError, ParseLevelError, PatchError, PlanError, RegistryError, RunError,
    SaveError, Session, SessionError, TensorError, TensorType, Type, TypeConflict, UnknownLevel,
    UnsupportedNode, Visit, WriteError, bytes, ndarray, rayon,
};

use crate::model::{ModelWriter, of_text};

/// The innermost error.
fn cause(error: &SessionError) -> String {
    fn of_op(error: &OpError) -> String {
        match error {
            OpError::Tensor(TensorError::NoMemory { n_bytes, .. }) => format!("{n_bytes} bytes"),
            OpError::Shapes { what, .. } => (*what).to_owned(),
            other => other.to_string(),
        }
    }
    fn of_graph(error: &GraphError) -> String {
        match error {
            GraphError::Inference(error) | GraphError::Operator(RegistryError::Op(error)) => {
                of_op(error)
            }
            GraphError::OutputType { conflict: TypeConflict { found, .. }, .. } => match &**found {
                Type::Tensor(TensorType { dims: Some(dims), .. }) => format!("{dims:?}"),
                other => other.to_string(),
            },
            other => other.to_string(),
        }
    }
    match error {
        SessionError::Load(LoadError::Missing { .. }) => "the file".to_owned(),
        SessionError::Format(error) => match &**error {
            FormatError::NotOrt { found } => found.clone(),
            FormatError::Damaged { damage: FormatDamage::Misaligned { .. }, .. } => {
                "misaligned".into()
            }
            FormatError::Invalid { fault, .. } => FormatFault::to_string(fault),
            other => other.to_string(),
        },
        SessionError::Import(error) => match &**error {
            ImportError::Node { error, .. } => of_graph(error),
            ImportError::Unsupported { nodes } => {
                nodes.iter().map(UnsupportedNode::reason).collect()
            }
            ImportError::Cycle(CycleError { node }) => node.clone(),
            other => other.to_string(),
        },
        SessionError::Optimize(error) => match &**error {
            OptimizeError::Infer(InferError::Node { error, .. }) => of_graph(error),
            OptimizeError::Nchwc(NchwcError::Patch(PatchError::Stale)) => "stale".to_owned(),
            other => other.to_string(),
        },
        SessionError::Onnx(error) => OnnxError::to_string(error),
        SessionError::Plan(PlanError::Prepare { error, .. }) => match &**error {
            KernelError::Op(error) => of_op(error),
            other => other.to_string(),
        },
        SessionError::Limit(LoadLimitError::Bytes { value, .. }) => value.clone(),
        SessionError::Save(SaveError::Format(error)) => WriteError::to_string(error),
        SessionError::Save(SaveError::Export(error)) => ExportError::to_string(error),
        other => other.to_string(),
    }
}

#[test]
fn errors_are_matched_with_this_crate_alone() {
    let add = ModelWriter::default().input("x", &[2]).input("z", &[3]);
    let folded = "graph(x: float[2,3]) -> (y) {
        n = const int64[1] [7]
        k = ReduceMax-13 [axes: [0]] (n)
        y = Reshape-14 (x, k)
    }";
    let cases = [
        (b"\0\0\0\0NOTHING AT ALL".to_vec(), "NOTH"),
        (add.node("Add", 14, &["x", "z"], "y").output("y").bytes(), "broadcasting"),
        (ModelWriter::default().node("Nothing", 1, &[], "y").output("y").bytes(), "Nothing"),
        (of_text(folded), "reshaping"),
    ];
    for (file, expected) in cases {
        let error = Session::builder().commit(ModelBytes::from_vec(file)).unwrap_err();
        assert!(cause(&error).contains(expected), "{}", cause(&error));
    }
}

/// Types in signatures and fields that do not occur above.
#[test]
fn types_of_signatures_have_names() {
    fn name<T: ?Sized>() -> &'static str {
        std::any::type_name::<T>()
    }
    let names = [
        name::<AssumedBlockSize>(),
        name::<Contradiction>(),
        name::<Dims>(),
        name::<ElementsError>(),
        name::<EvalError>(),
        name::<Fact>(),
        name::<Facts<'_>>(),
        name::<Graph>(),
        name::<LimitError>(),
        name::<dyn Memory>(),
        name::<OnnxDamage>(),
        name::<ParseLevelError>(),
        name::<Registry>(),
        name::<RunError>(),
        name::<UnknownLevel>(),
        name::<Visit>(),
        name::<bytes::Bytes>(),
        name::<ndarray::Array1<f32>>(),
        name::<rayon::ThreadPool>(),
    ];
    assert!(names.iter().all(|name| !name.is_empty()));
    assert_eq!("basic".parse::<Level>(), Ok(Level::Basic));
}
