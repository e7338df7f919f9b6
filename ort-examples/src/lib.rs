//! Teaching programs, below `src/bin/`: each does one task, in at most 80 lines.
//!
//! ```text
//! cargo run -p ort-examples --bin read_ort -- models/ppocr_cls/model.ort
//! ```
//!
//! The library builds small models from text, for programs and tests.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "graph(x: float[3]) -> (y) { y = Relu-14 (x) }";
//! let model = ort_examples::model(text, &ort_ops::registry())?;
//! let session = ort_session::Session::builder().commit(model)?;
//! assert_eq!(session.inputs()[0].name, "x");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

use std::error::Error;

use ort_graph::{Export, Graph, ModelInfo, Registry, export};
use ort_session::ModelBytes;

/// The `.ort` file of a graph from text, in the syntax of ort-graph.
///
/// # Errors
/// If the text is not valid, or has operators that `registry` lacks.
pub fn model(text: &str, registry: &Registry) -> Result<ModelBytes, Box<dyn Error>> {
    let graph = Graph::parse(text, registry)?;
    let opsets = vec![(String::new(), 17)];
    let info = ModelInfo { ir_version: 8, opsets, ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info))?;
    Ok(ModelBytes::from_vec(ort_format::write(&file)?))
}
