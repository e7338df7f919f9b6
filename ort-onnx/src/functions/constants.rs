//! Constant nodes become initializers.

use bytes::Bytes;

use crate::schema::{
    AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, attribute_type as kind,
};

/// Numbers of element types.
const FLOAT: i32 = 1;
const INT64: i32 = 7;
const STRING: i32 = 8;

/// Converts a graph's Constant nodes into initializers, if they are valid.
pub(super) fn lift(graph: &mut GraphProto) {
    graph.node.retain_mut(|node| {
        let constant = value(node);
        let stays = constant.is_none();
        match constant {
            Some(Value::Dense(tensor)) => graph.initializer.push(*tensor),
            Some(Value::Sparse(tensor)) => graph.sparse_initializer.push(*tensor),
            None => {}
        }
        stays
    });
}

enum Value {
    Dense(Box<TensorProto>),
    Sparse(Box<SparseTensorProto>),
}

/// The value of a Constant node with exactly one value, which is moved out.
fn value(node: &mut NodeProto) -> Option<Value> {
    let is_constant = node.domain.is_empty() || node.domain == "ai.onnx";
    let ([output], [attribute]) = (node.output.as_slice(), node.attribute.as_mut_slice()) else {
        return None;
    };
    if !is_constant || node.op_type != "Constant" || output.is_empty() {
        return None;
    }
    if attribute.name == "sparse_value" {
        let mut sparse = attribute.sparse_tensor.take()?;
        sparse.values.get_or_insert_default().name.clone_from(output);
        return Some(Value::Sparse(sparse));
    }
    let tensor = dense(attribute)?;
    Some(Value::Dense(Box::new(TensorProto { name: output.clone(), ..tensor })))
}

fn dense(attribute: &mut AttributeProto) -> Option<TensorProto> {
    let of = |data_type, dims| TensorProto { data_type, dims, ..TensorProto::default() };
    let list = |len: usize| vec![i64::try_from(len).unwrap_or(i64::MAX)];
    Some(match (attribute.name.as_str(), attribute.r#type) {
        ("value", kind::TENSOR) => *attribute.t.take()?,
        ("value_float", kind::FLOAT) => {
            TensorProto { float_data: vec![attribute.f?], ..of(FLOAT, Vec::new()) }
        }
        ("value_int", kind::INT) => {
            TensorProto { int64_data: vec![attribute.i?], ..of(INT64, Vec::new()) }
        }
        ("value_string", kind::STRING) => {
            TensorProto { string_data: vec![attribute.s.take()?], ..of(STRING, Vec::new()) }
        }
        ("value_floats", kind::FLOATS) => {
            let float_data = std::mem::take(&mut attribute.floats);
            TensorProto { dims: list(float_data.len()), float_data, ..of(FLOAT, Vec::new()) }
        }
        ("value_ints", kind::INTS) => {
            let int64_data = std::mem::take(&mut attribute.ints);
            TensorProto { dims: list(int64_data.len()), int64_data, ..of(INT64, Vec::new()) }
        }
        ("value_strings", kind::STRINGS) => {
            let string_data: Vec<Bytes> = std::mem::take(&mut attribute.strings);
            TensorProto { dims: list(string_data.len()), string_data, ..of(STRING, Vec::new()) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_initializers_and_others_stay() {
        let node = |op_type: &str, attribute: Vec<AttributeProto>| NodeProto {
            op_type: op_type.to_owned(),
            output: vec!["c".to_owned()],
            attribute,
            ..NodeProto::default()
        };
        let ints = AttributeProto {
            name: "value_ints".to_owned(),
            ints: vec![3, 4],
            r#type: kind::INTS,
            ..AttributeProto::default()
        };
        let nodes = vec![
            node("Constant", vec![ints.clone()]),
            node("Constant", vec![ints.clone(), ints.clone()]),
            node("Other", vec![ints]),
        ];
        let mut graph = GraphProto { node: nodes.clone(), ..GraphProto::default() };
        lift(&mut graph);
        assert_eq!(graph.node, nodes[1..]);
        let [tensor] = graph.initializer.as_slice() else { panic!("{graph:?}") };
        assert_eq!(
            (tensor.name.as_str(), &tensor.dims[..], &tensor.int64_data[..]),
            ("c", &[2][..], &[3, 4][..])
        );
    }
}
