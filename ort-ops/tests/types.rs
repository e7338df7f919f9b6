//! Inference accepts exactly the element types that a definition declares.

use ort_graph::{Attrs, Fact, Facts, NodeSpec, OpDef};
use ort_tensor::DType;

/// Operators whose data is not input 0, or whose types depend on an attribute.
const OTHERS: &[&str] = &[
    "ConstantOfShape",
    "EmbedLayerNormalization",
    "GridSample",
    "OneHot",
    "RandomNormalLike",
    "RandomUniformLike",
    "Where",
];

/// Whether inference accepts elements of type `dtype` in input 0 of a node without attributes, for any types of up to
/// two more inputs.
fn takes(def: &OpDef, dtype: DType) -> bool {
    let attrs = Attrs::new();
    let others = [dtype, DType::I64, DType::I32, DType::F32, DType::Bool]
        .map(|dtype| Some(Fact::unranked(dtype)));
    let others: Vec<_> = others.into_iter().chain([None]).collect();
    let first = Some(Fact::unranked(dtype));
    let mut pairs =
        others.iter().flat_map(|second| others.iter().map(move |third| (second, third)));
    pairs.any(|(second, third)| {
        let inputs = [&first, second, third].map(Option::as_ref);
        let present = inputs.map(|fact| fact.is_some());
        let spec = NodeSpec::new(def.versions.1, &present, 1, &attrs);
        (def.build)(&spec).is_ok_and(|op| op.infer(&Facts::new(&inputs)).is_ok())
    })
}

#[test]
fn definitions_say_which_types_inference_takes() {
    let mut n_checked = 0;
    for def in ort_ops::registry().defs().iter().filter(|def| !OTHERS.contains(&def.name)) {
        let taken: Vec<_> = DType::ALL.iter().filter(|&&dtype| takes(def, dtype)).collect();
        let said: Vec<_> = DType::ALL.iter().filter(|&&dtype| (def.types)(dtype)).collect();
        // Some need attributes, or inputs of further types.
        if !taken.is_empty() {
            assert_eq!(taken, said, "{}:{}", def.domain, def.name);
            n_checked += 1;
        }
    }
    assert!(n_checked > 150, "only {n_checked} were checked");
}
