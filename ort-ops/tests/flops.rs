//! The arithmetic that an operator reports.

use ort_graph::{Attr, Attrs, Dims, Fact, Facts, NodeSpec, TensorType, Type};
use ort_tensor::DType;

struct Row {
    op: (&'static str, &'static str, i32),
    attrs: Attrs,
    inputs: &'static [&'static [usize]],
    flops: u64,
}

fn row(
    name: &'static str,
    since_version: i32,
    inputs: &'static [&'static [usize]],
    flops: u64,
) -> Row {
    Row { op: ("", name, since_version), attrs: Attrs::new(), inputs, flops }
}

impl Row {
    fn microsoft(self) -> Self {
        Self { op: ("com.microsoft", self.op.1, self.op.2), ..self }
    }

    fn int(self, name: &str, value: i64) -> Self {
        Self { attrs: self.attrs.with(name, Attr::Int(value)), ..self }
    }

    fn ints(self, name: &str, values: &[i64]) -> Self {
        Self { attrs: self.attrs.with(name, Attr::Ints(values.to_vec())), ..self }
    }
}

/// Inputs and outputs of f32, as a session sees them: unused outputs are unknown.
fn flops(row: &Row) -> u64 {
    let present = vec![true; row.inputs.len()];
    let (domain, name, since_version) = row.op;
    let spec = NodeSpec::new(since_version, &present, 1, &row.attrs);
    let op = ort_ops::registry().build(domain, name, &spec).expect("the row is a node");
    let facts: Vec<Fact> = row.inputs.iter().map(|shape| Fact::shaped(DType::F32, shape)).collect();
    let facts: Vec<Option<&Fact>> = facts.iter().map(Some).collect();
    let inputs = Facts::new(&facts);
    let outputs = op.infer(&inputs).expect("the row's shapes fit");
    op.flops(&inputs, &outputs[..1])
}

#[test]
fn a_multiply_add_counts_two_and_an_element_what_is_done_to_it() {
    let convolution: &[&[usize]] = &[&[1, 4, 8, 8], &[6, 2, 3, 3]];
    let rows = [
        row("Conv", 11, convolution, 2 * 6 * 6 * 6 * 2 * 9).int("group", 2),
        row("ConvTranspose", 11, &[&[1, 4, 8, 8], &[4, 3, 2, 2]], 2 * 4 * 64 * 3 * 4),
        row("Gemm", 13, &[&[5, 3], &[3, 7]], 2 * 5 * 7 * 3),
        row("MatMul", 13, &[&[2, 5, 3], &[3, 7]], 2 * 2 * 5 * 7 * 3),
        row("LSTM", 14, &[&[6, 1, 3], &[1, 20, 3], &[1, 20, 5]], 2 * 6 * (20 * 3 + 20 * 5))
            .int("hidden_size", 5),
        row("Attention", 23, &[&[1, 2, 5, 4], &[1, 2, 7, 4], &[1, 2, 7, 3]], 2 * 2 * 5 * 7 * 7),
        row("MultiHeadAttention", 1, &[&[1, 5, 8], &[1, 7, 8], &[1, 7, 6]], 2 * 2 * 5 * 7 * 7)
            .microsoft()
            .int("num_heads", 2),
        row("Attention", 1, &[&[1, 5, 8], &[8, 24], &[24]], 2 * 5 * (8 * 24 + 5 * 8 + 5 * 8))
            .microsoft()
            .int("num_heads", 2),
        row("MaxPool", 12, &[&[1, 2, 8, 8]], 2 * 4 * 4 * 9)
            .ints("kernel_shape", &[3, 3])
            .ints("strides", &[2, 2])
            .ints("pads", &[1, 1, 1, 1]),
        row("GlobalAveragePool", 1, &[&[1, 2, 8, 8]], 2 * 64),
        row("ReduceMean", 13, &[&[2, 3, 4]], 24).ints("axes", &[1]),
        row("Add", 14, &[&[2, 3, 1], &[4]], 24),
        row("Sum", 13, &[&[2, 3], &[2, 3], &[2, 3]], 12),
        row("BatchNormalization", 15, &[&[1, 2, 3], &[2], &[2], &[2], &[2]], 12),
        row("LayerNormalization", 17, &[&[2, 3], &[3]], 48),
        row("SkipLayerNormalization", 1, &[&[1, 2, 3], &[1, 2, 3], &[3]], 54).microsoft(),
        row("Transpose", 13, &[&[2, 3]], 0),
    ];
    for row in rows {
        assert_eq!(flops(&row), row.flops, "{}", row.op.1);
    }
}

#[test]
fn what_is_not_known_beforehand_counts_nothing() {
    let unranked = Type::Tensor(TensorType { dtype: DType::F32, dims: None::<Dims> });
    let fact = Fact::from(unranked);
    for name in ["Conv", "MatMul", "Add", "GlobalAveragePool"] {
        let attrs = Attrs::new();
        let spec = NodeSpec::new(13, &[true, true], 1, &attrs);
        let spec = match name {
            "GlobalAveragePool" => NodeSpec::new(1, &[true], 1, &attrs),
            "Conv" => NodeSpec::new(11, &[true, true], 1, &attrs),
            _ => spec,
        };
        let op = ort_ops::registry().build("", name, &spec).expect("a node");
        let inputs = [Some(&fact), Some(&fact)];
        assert_eq!(op.flops(&Facts::new(&inputs), std::slice::from_ref(&fact)), 0, "{name}");
    }
}
