//! LabelEncoderFusion: two consecutive LabelEncoders become one, with the keys of the first and what the second maps
//! its values to.
//!
//! Source: ONNX Runtime 1.31, LabelEncoderFusion.

use ort_graph::{Attr, Attrs, NewNode, Node, Patch};
use ort_ops::ops::ml::label_encoder::LabelEncoder;
use ort_tensor::{DType, Inputs, Output, Tensor, Value, ValueView};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "LabelEncoderFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(LabelEncoderFusion),
};

struct LabelEncoderFusion;

impl Rewrite for LabelEncoderFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["LabelEncoder"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, second) = (site.graph, site.node());
        let Some(&Some(between)) = second.inputs.first() else { return Ok(None) };
        let first = graph.producer(between).map(|(id, _)| graph.node(id));
        let Some(first) = first.filter(|first| first.op_type == "LabelEncoder") else {
            return Ok(None);
        };
        if first.since_version != second.since_version {
            return Err(Refusal("the two are of different versions"));
        }
        let mut patch = Patch::new(graph);
        let new = patch.output_of(NewNode {
            name: second.name.clone(),
            domain: second.domain.clone(),
            op_type: second.op_type.clone(),
            since_version: second.since_version,
            inputs: first.inputs.to_vec(),
            attrs: composed(first, second)?,
            ..NewNode::default()
        })?;
        if let Some(&Some(old)) = second.outputs.first() {
            patch.replace(old, new);
        }
        Ok(Some(patch))
    }
}

/// The attributes of the LabelEncoder that composes `first` and then `second`.
fn composed(first: &Node, second: &Node) -> Result<Attrs, Refusal> {
    let wrong = Refusal("its keys or values are not known");
    let keys: Vec<(&str, &Attr)> =
        first.attrs.iter().filter(|(name, _)| name.starts_with("keys_")).collect();
    let &[(name, keys)] = keys.as_slice() else { return Err(wrong) };
    let values = first.operator::<LabelEncoder>().map(|encoder| &encoder.values).ok_or(wrong)?;
    // The last of its values is the default.
    let values = encoded(second, &encoded(first, &list(keys).ok_or(wrong)?)?)
        .and_then(|led_to| Ok((led_to, encoded(second, values)?)))?;
    let attrs = Attrs::new().with(name, keys.clone());
    with_values(attrs, &values.0, &values.1)
        .ok_or(Refusal("only a tensor attribute could contain its values"))
}

/// The result of `encoder` for `x`.
fn encoded(encoder: &Node, x: &Tensor) -> Result<Tensor, Refusal> {
    let mut outputs = [Output::free()];
    let inputs = [Some(ValueView::Tensor(x.view()))];
    let failed = Refusal("it cannot be computed");
    encoder.op.eval(Inputs::new(&inputs), &mut outputs).map_err(|_| failed)?;
    let [output] = outputs;
    match output.into_value() {
        Some(Value::Tensor(tensor)) => Ok(tensor),
        _ => Err(failed),
    }
}

fn list(attr: &Attr) -> Option<Tensor> {
    match attr {
        Attr::Tensor(tensor) => Some(tensor.clone()),
        Attr::Strings(list) => Tensor::from_strings(&[list.len()], list.clone()).ok(),
        Attr::Ints(list) => Tensor::from_slice(&[list.len()], list).ok(),
        Attr::Floats(list) => Tensor::from_slice(&[list.len()], list).ok(),
        _ => None,
    }
}

/// With these values, and the last of `others` as default.
fn with_values(attrs: Attrs, values: &Tensor, others: &Tensor) -> Option<Attrs> {
    Some(match values.dtype() {
        DType::String => {
            let default = others.view().as_strings().ok()?.last()?.clone();
            let values = values.view().as_strings().ok()?.to_vec();
            attrs
                .with("values_strings", Attr::Strings(values))
                .with("default_string", Attr::String(default))
        }
        DType::I64 => {
            let default = *others.as_slice::<i64>().ok()?.last()?;
            let values = values.as_slice::<i64>().ok()?.to_vec();
            attrs
                .with("values_int64s", Attr::Ints(values))
                .with("default_int64", Attr::Int(default))
        }
        DType::F32 => {
            let default = *others.as_slice::<f32>().ok()?.last()?;
            let values = values.as_slice::<f32>().ok()?.to_vec();
            attrs
                .with("values_floats", Attr::Floats(values))
                .with("default_float", Attr::Float(default))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn keys_map_to_what_their_values_map_to() {
        assert_optimized(
            super::PASS,
            r#"graph(x: int64[n], y: int64[n]) -> (a, b, f) {
               s = ai.onnx.ml:LabelEncoder-2 [keys_int64s: [0, 1, 1, 5], default_string: "one",
                 values_strings: ["zero", "one", "two", "five"]] (x)
               a = ai.onnx.ml:LabelEncoder-2 [keys_strings: ["one", "zero"], values_int64s: [10, 7],
                 default_int64: -3] (s)
               t = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [0, 1, 1], values_int64s: [3, 4, 5]] (y)
               u = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [5, -1], values_floats: [0.5, 2.0]] (t)
               b = Neg-13 (u)
               c = ai.onnx.ml:LabelEncoder-2 [keys_int64s: [0, 1], values_int64s: [3, 4]] (y)
               d = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [3], values_int64s: [3]] (c)
               e = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [3],
                 values_tensor: double[1] [0.25]] (d)
               f = Neg-13 (e)
             }"#,
            &expect![[r#"
                graph(x: int64[n], y: int64[n]) -> (a, b, f) {
                  c = ai.onnx.ml:LabelEncoder-2 [keys_int64s: [0, 1], values_int64s: [3, 4]] (y)
                  d = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [3], values_int64s: [3]] (c)
                  e = ai.onnx.ml:LabelEncoder-4 [keys_int64s: [3], values_tensor: double[1] [0.25]] (d)
                  f = Neg-13 (e)
                  a = ai.onnx.ml:LabelEncoder-2 [default_int64: 10, keys_int64s: [0, 1, 1, 5], values_int64s: [7, 10, 10, -3]] (x)
                  u = ai.onnx.ml:LabelEncoder-4 [default_float: 2.0, keys_int64s: [0, 1, 1], values_floats: [-0.0, 0.5, 0.5]] (y)
                  b = Neg-13 (u)
                }
                1 refused: the two are of different versions
                1 refused: only a tensor attribute could contain its values"#]],
        );
    }
}
