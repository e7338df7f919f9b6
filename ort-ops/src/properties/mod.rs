//! Properties: of each operator, random nodes of every element type and version that it covers,
//! against an oracle that is independent of the code under test.
//!
//! A family of operators is a file; a property is a line of its table and a function that draws a
//! node (operands of rank 0 to 6, dimensions of 0, broadcasts, axes from either end) together with
//! its oracle: what the outputs should be, cell by cell, as the specification defines it.

mod array;
mod attending;
mod batch_normalization;
mod cell;
mod draw;
mod elementwise;
mod expected;
mod forest;
mod function;
mod groups;
mod kept;
mod quantized_values;
mod scores;
mod windows;

use ort_graph::{Attr, Attrs};
use ort_tensor::{DType, Tensor, Value};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::array::{Array, Cell};
use self::draw::{Draw, ints};
use self::expected::{Expected, ulp};
use crate::case::Case;

/// How nodes of an operator are drawn.
struct Property {
    /// Empty for ai.onnx.
    domain: &'static str,
    /// The operator.
    name: &'static str,
    /// The since-versions to draw: where the meaning or the form changed, and the newest.
    versions: &'static [i32],
    /// Draws a node whose data has elements of a type. For a type that the operator does not support, the oracle is
    /// not called.
    draw: fn(&mut Draw, DType) -> Sample,
}

/// A node with its operands and expected outputs.
struct Sample {
    attrs: Attrs,
    inputs: Vec<Option<Value>>,
    n_outputs: usize,
    oracle: Box<dyn Fn() -> Vec<Expected>>,
}

impl Property {
    /// Of ai.onnx.
    const fn onnx(
        name: &'static str,
        versions: &'static [i32],
        draw: fn(&mut Draw, DType) -> Sample,
    ) -> Self {
        Self { domain: "", name, versions, draw }
    }

    /// Of ai.onnx.ml.
    const fn ml(
        name: &'static str,
        versions: &'static [i32],
        draw: fn(&mut Draw, DType) -> Sample,
    ) -> Self {
        Self { domain: "ai.onnx.ml", name, versions, draw }
    }

    /// Of com.microsoft, whose versions are all 1.
    const fn microsoft(name: &'static str, draw: fn(&mut Draw, DType) -> Sample) -> Self {
        Self { domain: "com.microsoft", name, versions: &[1], draw }
    }
}

impl Sample {
    /// A node with one output on these tensors, all present.
    fn new(inputs: &[&Tensor], oracle: impl Fn() -> Vec<Expected> + 'static) -> Self {
        let inputs = inputs.iter().map(|&tensor| Some(Value::Tensor(tensor.clone()))).collect();
        Self { attrs: Attrs::new(), inputs, n_outputs: 1, oracle: Box::new(oracle) }
    }

    /// A node with one output on tensors of which some are absent.
    fn of(
        inputs: impl IntoIterator<Item = Option<Tensor>>,
        oracle: impl Fn() -> Vec<Expected> + 'static,
    ) -> Self {
        let inputs = inputs.into_iter().map(|input| input.map(Value::Tensor)).collect();
        Self { inputs, ..Self::new(&[], oracle) }
    }

    /// A node whose first operand is `x`, and whose output has at each index the element of `x` that
    /// is at `from` of that index.
    fn moving(
        x: &Tensor,
        shape: Vec<usize>,
        from: impl Fn(&[usize]) -> Vec<usize> + 'static,
    ) -> Self {
        Self::new(&[x], {
            let x = x.clone();
            move || Expected::exact(x.dtype(), Array::of(&x).picked(&shape, &from))
        })
    }

    fn attr(mut self, name: &str, attr: Attr) -> Self {
        self.attrs.set(name, attr);
        self
    }

    /// Integers that are an attribute up to some version, and later the next operand.
    fn ints(self, is_attr: bool, name: &str, values: &[i64]) -> Self {
        let index = self.inputs.len();
        match is_attr {
            true => self.attr(name, Attr::Ints(values.to_vec())),
            false => self.input(index, ints(values)),
        }
    }

    fn outputs(self, n_outputs: usize) -> Self {
        Self { n_outputs, ..self }
    }

    /// The operand at `index`, which may be the next one or one further, absent ones between.
    fn input(mut self, index: usize, value: impl Into<Option<Tensor>>) -> Self {
        self.inputs.resize(self.inputs.len().max(index + 1), None);
        self.inputs[index] = value.into().map(Value::Tensor);
        self
    }

    /// A node with these operands, of any kind.
    fn of_values(inputs: Vec<Value>, oracle: impl Fn() -> Vec<Expected> + 'static) -> Self {
        let inputs = inputs.into_iter().map(Some).collect();
        Self { inputs, ..Self::new(&[], oracle) }
    }
}

/// Draws nodes of every version and element type of each property.
fn check_all(properties: &[Property]) {
    let registry = crate::registry();
    for property in properties {
        for &version in property.versions {
            let def = registry.find(property.domain, property.name, version).unwrap();
            let is_taken = |dtype: &DType| (def.types)(*dtype);
            let n_taken = DType::ALL.iter().copied().filter(is_taken).count();
            for dtype in DType::ALL {
                check(property, version, *dtype, is_taken(dtype).then_some(n_taken));
            }
        }
    }
}

/// Draws nodes of one version on one element type: they agree with the oracle, or, if the operator does not support
/// the type, inference rejects them. If it does, it supports `n_taken` types.
fn check(property: &Property, version: i32, dtype: DType, n_taken: Option<usize>) {
    // The same nodes each time; PROPTEST_CASES draws more.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let cases: u32 =
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let cases = match n_taken {
        // The fewer types, the more nodes of each.
        Some(1..4) => 4 * cases,
        Some(_) => cases,
        // Whether a type is supported depends on little else.
        None => cases.div_ceil(4),
    };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed_and_size = (proptest::num::u64::ANY, 1_usize..=4);
    let salt = salt(property.name, version, dtype);
    let outcome = TestRunner::new_with_rng(config, rng).run(&seed_and_size, |(seed, size)| {
        let sample = (property.draw)(&mut Draw::new(seed ^ salt, size, version), dtype);
        let mut case = Case::new(property.name, version).domain(property.domain);
        case = case.outputs(sample.n_outputs);
        for (name, attr) in sample.attrs.iter() {
            case = case.attr(name, attr.clone());
        }
        if n_taken.is_none() {
            assert!(case.infer(&sample.inputs).is_err(), "accepts a type that it does not declare");
            return Ok(());
        }
        let found = case.run_values(&sample.inputs).unwrap_or_else(|error| panic!("{error}"));
        let expected = (sample.oracle)();
        assert_eq!(found.len(), expected.len(), "outputs");
        for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
            expected.check(found, i);
        }
        Ok(())
    });
    let name = format!("{}:{} version {version} of {dtype}", property.domain, property.name);
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Makes the nodes of each operator, version and type different: FNV-1a.
fn salt(name: &str, version: i32, dtype: DType) -> u64 {
    let numbers = [version, dtype.onnx()].map(i32::cast_unsigned);
    let words = name.bytes().map(u32::from).chain(numbers);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Declares the families, and a test for each.
macro_rules! families {
    ($($family:ident),* $(,)?) => {
        $(mod $family;)*

        const FAMILIES: &[&[Property]] = &[$($family::PROPERTIES),*];

        mod holds {
            $(#[test]
            fn $family() {
                super::check_all(super::$family::PROPERTIES);
            })*
        }
    };
}

// One per line, in alphabetical order.
families! {
    activation,
    attention,
    binary,
    blocked,
    carried_state,
    cast,
    cast_map,
    choice,
    comparison,
    contraction,
    convolution,
    crop,
    crop_pad,
    determinant,
    edges,
    experts,
    features,
    fourier,
    gather,
    generator,
    geometry,
    group_query,
    images,
    labels,
    lanes,
    layer_normalization,
    linear,
    linear_attention,
    loss,
    movement,
    multi_head,
    nchwc,
    ngram_hashes,
    normalization,
    pool,
    product,
    qlinear,
    quantization,
    quantized_embedding,
    quantized_gemm,
    quantized_lstm,
    quantized_pool,
    quantized_product,
    random,
    recurrent,
    reduction,
    resize,
    rotation,
    sampling,
    scatter,
    selection,
    self_attention,
    sequences,
    sparse_attention,
    streams,
    strings,
    tokenizer,
    tokens,
    transposed_convolution,
    trees,
    unary,
    variadic,
    vector_machines,
    views,
    ways,
}

/// Operators without a property, and why.
const WITHOUT: &[(&str, &str, &str)] = &[
    ("", "If", "run by a plan, not by eval"),
    ("", "Loop", "run by a plan, not by eval"),
    ("", "Scan", "run by a plan, not by eval"),
    ("", "SequenceMap", "run by a plan, not by eval"),
    ("ai.onnx.preview.training", "Adagrad", "the standard's cases, and its formula by hand"),
    ("ai.onnx.preview.training", "Adam", "the standard's cases, and its formula by hand"),
    ("ai.onnx.preview.training", "Momentum", "the standard's cases, and its formula by hand"),
];

#[test]
fn every_operator_has_a_property() {
    let has = |domain: &str, name: &str| {
        FAMILIES.iter().copied().flatten().any(|it| (it.domain, it.name) == (domain, name))
            || WITHOUT.iter().any(|it| (it.0, it.1) == (domain, name))
    };
    let missing: Vec<_> = crate::registry()
        .defs()
        .iter()
        .filter(|def| !has(def.domain, def.name))
        .map(|def| format!("{}:{}", def.domain, def.name))
        .collect();
    assert!(missing.is_empty(), "{} of them: {}", missing.len(), missing.join(" "));
}
