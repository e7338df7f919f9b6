//! Mutants of models: well-formed files without a sensible meaning.

use ort_onnx::schema::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use ort_testing::Rng;

/// A model with one to three things changed.
pub(crate) fn mutant(models: &[ModelProto], rng: &mut Rng) -> ModelProto {
    let mut model = models[rng.index(models.len())].clone();
    let other = &models[rng.index(models.len())];
    for _ in 0..=rng.below(3) {
        change(&mut model, other, rng);
    }
    model
}

/// The first operators of a model.
pub(crate) fn label(model: &ModelProto) -> String {
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    nodes.take(3).map(|node| &*node.op_type).collect::<Vec<_>>().join(" ")
}

/// An unusual value for sizes, axes and counts; small ones are more frequent.
pub(crate) fn extreme(rng: &mut Rng) -> i64 {
    const FAR: [i64; 10] = [
        i64::MIN,
        i64::MAX,
        1 << 62,
        1 << 40,
        1 << 31,
        -(1 << 31),
        1 << 20,
        -(1 << 40),
        65_536,
        1000,
    ];
    match rng.below(4) {
        0 => FAR[rng.index(FAR.len())],
        _ => i64::try_from(rng.below(12)).unwrap_or(0) - 4,
    }
}

fn change(model: &mut ModelProto, other: &ModelProto, rng: &mut Rng) {
    let Some(graph) = &mut model.graph else { return };
    match rng.below(8) {
        0 | 1 => change_attribute(graph, other, rng),
        2 | 3 => change_node(graph, other, rng),
        4 => change_declaration(graph, rng),
        5 | 6 => change_constant(graph, rng),
        _ => {
            if let Some(set) = pick(&mut model.opset_import, rng) {
                set.version = i64::try_from(rng.below(28)).unwrap_or(1);
            }
        }
    }
}

fn pick<'a, T>(list: &'a mut [T], rng: &mut Rng) -> Option<&'a mut T> {
    let at = rng.index(list.len().max(1));
    list.get_mut(at)
}

fn change_attribute(graph: &mut GraphProto, other: &ModelProto, rng: &mut Rng) {
    let Some(node) = pick(&mut graph.node, rng) else { return };
    if rng.below(6) == 0 {
        let others = other.graph.iter().flat_map(|graph| &graph.node);
        node.attribute.extend(others.flat_map(|node| node.attribute.iter().cloned()).take(1));
    }
    let at = rng.index(node.attribute.len().max(1));
    if rng.below(6) == 0 && at < node.attribute.len() {
        node.attribute.remove(at);
    }
    let Some(attribute) = pick(&mut node.attribute, rng) else { return };
    change_value(attribute, rng);
}

fn change_value(attribute: &mut AttributeProto, rng: &mut Rng) {
    const FLOATS: [f32; 7] =
        [0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45];
    if let Some(i) = &mut attribute.i {
        *i = extreme(rng);
    }
    if let Some(f) = &mut attribute.f {
        *f = FLOATS[rng.index(FLOATS.len())];
    }
    match rng.below(4) {
        0 => attribute.ints.push(extreme(rng)),
        1 => drop(attribute.ints.pop()),
        _ => {
            if let Some(i) = pick(&mut attribute.ints, rng) {
                *i = extreme(rng);
            }
        }
    }
    if let Some(f) = pick(&mut attribute.floats, rng) {
        *f = FLOATS[rng.index(FLOATS.len())];
    }
    if let Some(tensor) = &mut attribute.t {
        change_tensor(tensor, rng);
    }
    if let Some(graph) = &mut attribute.g {
        change_node(graph, &ModelProto::default(), rng);
    }
}

fn change_node(graph: &mut GraphProto, other: &ModelProto, rng: &mut Rng) {
    let names: Vec<String> = graph.node.iter().flat_map(|node| node.input.clone()).collect();
    let Some(node) = pick(&mut graph.node, rng) else { return };
    match rng.below(6) {
        0 => {
            let others: Vec<&NodeProto> =
                other.graph.iter().flat_map(|graph| &graph.node).collect();
            if let Some(other) = others.first() {
                (node.op_type, node.domain) = (other.op_type.clone(), other.domain.clone());
            }
        }
        1 => drop(node.input.pop()),
        2 => node.input.extend(names.first().cloned()),
        3 => node.input.reverse(),
        4 => {
            if let (Some(input), false) = (pick(&mut node.input, rng), names.is_empty()) {
                let at = rng.index(names.len());
                *input = if rng.below(3) == 0 { String::new() } else { names[at].clone() };
            }
        }
        _ => drop(node.output.pop()),
    }
}

/// Changes the declaration of an input or output.
fn change_declaration(graph: &mut GraphProto, rng: &mut Rng) {
    let list = if rng.below(4) == 0 { &mut graph.output } else { &mut graph.input };
    let Some(value) = pick(list, rng) else { return };
    let ty = value.r#type.as_mut().and_then(|ty| ty.tensor_type.as_mut());
    let Some(tensor) = ty else { return };
    if rng.below(4) == 0 {
        tensor.elem_type = i32::try_from(rng.below(27)).unwrap_or(1);
    }
    let Some(shape) = &mut tensor.shape else { return };
    match rng.below(5) {
        0 => drop(shape.dim.pop()),
        1 => shape.dim.extend(shape.dim.first().cloned()),
        _ => {
            if let Some(dim) = pick(&mut shape.dim, rng) {
                dim.dim_value = if rng.below(3) == 0 { None } else { Some(extreme(rng)) };
            }
        }
    }
}

fn change_constant(graph: &mut GraphProto, rng: &mut Rng) {
    if let Some(tensor) = pick(&mut graph.initializer, rng) {
        return change_tensor(tensor, rng);
    }
    // An input becomes a constant, as used for sizes.
    let Some(value) = graph.input.last() else { return };
    let raw: Vec<u8> = (0..2).flat_map(|_| extreme(rng).to_le_bytes()).collect();
    let name = value.name.clone();
    let raw_data = Some(raw.into());
    graph.initializer.push(TensorProto {
        name,
        dims: vec![2],
        data_type: 7,
        raw_data,
        ..TensorProto::default()
    });
}

fn change_tensor(tensor: &mut TensorProto, rng: &mut Rng) {
    match rng.below(5) {
        0 => {
            if let Some(dim) = pick(&mut tensor.dims, rng) {
                *dim = extreme(rng);
            }
        }
        1 => tensor.data_type = i32::try_from(rng.below(27)).unwrap_or(1),
        _ => {
            let Some(raw) = &tensor.raw_data else { return };
            let mut raw = raw.to_vec();
            for number in raw.as_chunks_mut::<8>().0 {
                if rng.below(2) == 0 {
                    *number = extreme(rng).to_le_bytes();
                }
            }
            tensor.raw_data = Some(raw.into());
        }
    }
}
