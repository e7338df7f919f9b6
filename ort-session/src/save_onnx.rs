//! A model saved as a `.onnx` file.

use std::path::Path;

use ort_graph::{Export, ModelInfo, export, to_onnx};
use ort_onnx::schema::{GraphProto, StringStringEntryProto, TensorProto};
use ort_onnx::{ModelProto, OnnxError};
use ort_tensor::Tensor;

use crate::error::SaveError;
use crate::optimized::{Optimized, PRIVATE};
use crate::packed::unsealed;
use crate::save::write_whole;

/// Where the elements of a constant are if they are not in the `.onnx` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalElements {
    /// The name of the file, relative to the model's folder.
    pub file: String,
    /// Where they begin in it.
    pub offset: u64,
    /// Their number of bytes.
    pub n_bytes: u64,
}

/// ONNX's number for elements in another file.
const EXTERNAL: i32 = 1;

impl ExternalElements {
    fn entries(self) -> Vec<StringStringEntryProto> {
        let entries = [
            ("location", self.file),
            ("offset", self.offset.to_string()),
            ("length", self.n_bytes.to_string()),
        ];
        let entry =
            |(key, value): (&str, String)| StringStringEntryProto { key: key.to_owned(), value };
        entries.map(entry).into()
    }
}

impl Optimized {
    /// The current model as the bytes of a `.onnx` file, including elements. It has no packed
    /// constants.
    ///
    /// # Errors
    /// If the graph has something that the format cannot represent, elements of constants were released, or the file would
    /// have 2 GiB, which protobuf readers reject, or exceed the limits of loading.
    pub fn to_onnx_bytes(&self) -> Result<Vec<u8>, SaveError> {
        self.saving_onnx(|| encoded(&self.to_proto()?))
    }

    /// The same with elements in other files. `place` is called with the name and the elements of each constant of numbers,
    /// and returns where it has stored them; `None` leaves them in the model. The bytes of a little-endian file are those of the tensor.
    ///
    /// # Errors
    /// As [`Optimized::to_onnx_bytes`], and those of `place`.
    pub fn to_onnx_bytes_with_external<E: From<SaveError>>(
        &self,
        place: &mut dyn FnMut(&str, Tensor) -> Result<Option<ExternalElements>, E>,
    ) -> Result<Vec<u8>, E> {
        let mut model = self.saving_onnx(|| self.to_proto())?;
        model.graph.iter_mut().try_for_each(|graph| move_out(graph, place))?;
        Ok(self.saving_onnx(|| encoded(&model))?)
    }

    /// Writes [`Optimized::to_onnx_bytes`] as [`Optimized::write`] does.
    ///
    /// # Errors
    /// As for both.
    pub fn write_onnx(&self, path: impl AsRef<Path>) -> Result<usize, SaveError> {
        let bytes = self.to_onnx_bytes()?;
        self.settings.saving(usize::MAX, || write_whole(path.as_ref(), &bytes))?;
        Ok(bytes.len())
    }

    fn saving_onnx<T>(&self, save: impl FnOnce() -> Result<T, SaveError>) -> Result<T, SaveError> {
        self.settings.saving(self.room(&self.settings.load_limits.budget(&self.graph)), save)
    }

    fn to_proto(&self) -> Result<ModelProto, SaveError> {
        let mut is_complete = true;
        let mut graph = self.for_others()?.into_owned(); // bounded: by the graph
        graph.edit_constants(&mut |constant, forms| {
            is_complete &= !constant.is_released();
            forms.clear();
        });
        if !is_complete {
            return Err(SaveError::Released);
        }
        let info = ModelInfo { metadata: unsealed(&self.model.metadata), ..self.model.clone() };
        let options = Export { private: PRIVATE, ..Export::new(&info) };
        Ok(to_onnx(export(&graph, options).map_err(Box::new)?, &info.graph_name)?)
    }
}

fn encoded(model: &ModelProto) -> Result<Vec<u8>, SaveError> {
    ort_onnx::encode(model).map_err(|error| match error {
        OnnxError::Memory { error, .. } => error.into(),
        _ => SaveError::TooLarge,
    })
}

/// Moves elements out of a graph and its subgraphs.
fn move_out<E>(
    graph: &mut GraphProto,
    place: &mut dyn FnMut(&str, Tensor) -> Result<Option<ExternalElements>, E>,
) -> Result<(), E> {
    for tensor in &mut graph.initializer {
        if let Some(elements) = numbers(tensor)
            && let Some(external) = place(&tensor.name, elements)?
        {
            tensor.external_data = external.entries();
            tensor.data_location = EXTERNAL;
            tensor.raw_data = None;
        }
    }
    let mut attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes.try_for_each(|attribute| {
        let one = attribute.g.iter_mut().map(|graph| &mut **graph);
        one.chain(&mut attribute.graphs).try_for_each(|graph| move_out(graph, place))
    })
}

/// The elements; `None` if they are strings.
fn numbers(tensor: &TensorProto) -> Option<Tensor> {
    let (dtype, shape) = (tensor.dtype().ok()?, tensor.shape().ok()?);
    Tensor::from_bytes(dtype, &shape, tensor.raw_data.clone()?).ok()
}
