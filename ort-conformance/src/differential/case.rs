//! A graph to run in every configuration, and the tolerance of its results.

use std::fmt;

use bytes::Bytes;
use ort_graph::{Dim, Export, Fact, Graph, ModelInfo, Type, export};
use ort_tensor::{AlignedBuf, DType, Tensor, TensorError};

use super::data;

/// A graph as text, whose inputs follow from their names.
#[derive(Clone, Debug)]
pub struct Case {
    /// The generator.
    pub family: &'static str,
    /// The graph, whose tensors are inputs unless they are literals.
    pub text: String,
    /// Whether the model declares the shapes of its inputs, or only their ranks.
    pub has_shapes: bool,
    /// The tolerance of each output.
    pub bounds: Vec<f64>,
}

/// A case, ready to run.
#[derive(Debug)]
pub(crate) struct Model {
    /// The file.
    pub(crate) bytes: Bytes,
    /// The inputs of a run.
    pub(crate) inputs: Vec<(String, Tensor)>,
}

/// How the inputs of a case are filled.
pub(crate) struct Filling {
    /// The tensor of a name.
    pub(crate) tensor: fn(&str, DType, &[usize]) -> Result<Tensor, TensorError>,
    /// Whether the input of a name is a constant.
    pub(crate) is_constant: fn(&str) -> bool,
}

/// The case as a test would pass it to [`Case::new`].
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nbounds {:?}", self.text, self.bounds)?;
        f.write_str(if self.has_shapes { "" } else { ", without shapes" })
    }
}

impl Case {
    /// A case from its text, and the tolerance of each output.
    pub fn new(text: &str, bounds: &[f64]) -> Self {
        Self { family: "", text: text.to_owned(), has_shapes: true, bounds: bounds.to_vec() }
    }

    /// The model, and inputs for it.
    ///
    /// # Errors
    /// The message of the error in the text.
    pub(crate) fn model(&self) -> Result<Model, String> {
        self.filled(&Filling { tensor: data::tensor, is_constant: data::is_constant })
    }

    /// The same with other contents.
    ///
    /// # Errors
    /// The message of the error in the text.
    pub(crate) fn filled(&self, filling: &Filling) -> Result<Model, String> {
        let graph = Graph::parse(&self.text, &ort_ops::registry());
        let mut graph = graph.map_err(|error| error.to_string())?;
        let (mut given, mut inputs) = (Vec::new(), Vec::new());
        for id in graph.inputs().to_vec() {
            let info = graph.value(id);
            let (dtype, shape) = shaped(&info.fact).ok_or("an input has no shape")?;
            let tensor = (filling.tensor)(&info.name, dtype, &shape);
            let tensor = tensor.map_err(|error| error.to_string())?;
            if (filling.is_constant)(&info.name) {
                graph.value_mut(id).fact = Fact::constant(tensor);
            } else {
                inputs.push((info.name.clone(), tensor));
                given.push(id);
                if !self.has_shapes {
                    let dims = shape.iter().map(|_| Dim::Unknown);
                    graph.value_mut(id).fact = Fact::tensor(dtype, dims);
                }
            }
        }
        graph.set_inputs(given);
        // The newest version that a node follows, if it is newer than the default.
        let nodes = graph.node_ids().map(|id| graph.node(id));
        let versions = nodes.filter(|node| node.domain.is_empty()).map(|node| node.since_version);
        let opset = i64::from(versions.max().unwrap_or_default()).max(22);
        let opsets = vec![(String::new(), opset), ("com.microsoft".to_owned(), 1)];
        let info = ModelInfo { ir_version: 10, opsets, ..ModelInfo::default() };
        let file = export(&graph, Export::new(&info));
        let file = file.map_err(|error| error.to_string())?;
        let bytes = ort_format::write(&file).map_err(|error| error.to_string())?;
        Ok(Model { bytes: Bytes::from_owner(AlignedBuf::copy_of(&bytes)), inputs })
    }
}

/// Element type and shape, if both are known.
fn shaped(fact: &Fact) -> Option<(DType, Vec<usize>)> {
    let Type::Tensor(tensor) = &fact.ty else { return None };
    let size = |dim: &Dim| match dim {
        Dim::Known(n) => Some(*n),
        _ => None,
    };
    let shape: Option<Vec<usize>> = tensor.dims.as_ref()?.iter().map(size).collect();
    Some((tensor.dtype, shape?))
}
