//! A model saved as a `.onnx` file.

use std::path::Path;

use ort_graph::{Export, ModelInfo, export, to_onnx};

use crate::error::SaveError;
use crate::optimized::{Optimized, PRIVATE};
use crate::packed::unsealed;
use crate::save::write_whole;

impl Optimized {
    /// The current model as the bytes of a `.onnx` file, including elements. It has no packed
    /// constants.
    ///
    /// # Errors
    /// If the graph has something that the format cannot represent, elements of constants were released, or the file would
    /// have 2 GiB, which protobuf readers reject.
    pub fn to_onnx_bytes(&self) -> Result<Vec<u8>, SaveError> {
        let mut is_complete = true;
        let mut graph = self.graph.clone();
        graph.edit_constants(&mut |constant, forms| {
            is_complete &= !constant.is_released();
            forms.clear();
        });
        if !is_complete {
            return Err(SaveError::Released);
        }
        let info = ModelInfo { metadata: unsealed(&self.model.metadata), ..self.model.clone() };
        let options = Export { info: &info, resolver: None, private: PRIVATE };
        let model = to_onnx(export(&graph, options).map_err(Box::new)?, &info.graph_name);
        ort_onnx::encode(&model).ok_or(SaveError::TooLarge)
    }

    /// Writes [`Optimized::to_onnx_bytes`] as [`Optimized::write`] does.
    ///
    /// # Errors
    /// As for both.
    pub fn write_onnx(&self, path: impl AsRef<Path>) -> Result<usize, SaveError> {
        let bytes = self.to_onnx_bytes()?;
        write_whole(path.as_ref(), &bytes)?;
        Ok(bytes.len())
    }
}
