//! Cast as before operator set 6: its target is a name.

use std::sync::Arc;

use ort_graph::{NodeSpec, OpDef, OpError, Operator};
use ort_tensor::DType;

use super::cast::{Cast, Narrowing, RoundMode, is_castable};

/// The definitions of this file.
pub const DEFS: &[OpDef] =
    &[OpDef { domain: "", name: "Cast", versions: (1, 5), types: is_castable, build }];

/// The types that Cast-1 makes, as `TensorProto` calls them.
pub(crate) const NAMES: &[(&str, DType)] = &[
    ("BOOL", DType::Bool),
    ("DOUBLE", DType::F64),
    ("FLOAT", DType::F32),
    ("FLOAT16", DType::F16),
    ("INT16", DType::I16),
    ("INT32", DType::I32),
    ("INT64", DType::I64),
    ("INT8", DType::I8),
    ("UINT16", DType::U16),
    ("UINT32", DType::U32),
    ("UINT64", DType::U64),
    ("UINT8", DType::U8),
];

/// [`Cast`] to the type whose name, in any case, is the attribute `to`. Not to strings.
///
/// Source: ONNX operator set, Cast-1.
fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    let name = spec.string("to")?.ok_or(OpError::MissingAttribute { name: "to" })?;
    let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let unknown = || OpError::AttributeValue { name: "to", found: name.to_owned() };
    let &(_, to) = found.ok_or_else(unknown)?;
    let narrowing = Narrowing { saturate: true, round_mode: RoundMode::Up };
    Ok(Arc::new(Cast { to, narrowing }))
}
