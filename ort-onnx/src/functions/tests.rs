//! Calls, attributes and graphs of functions.

use super::*;
use crate::schema::{AttributeProto, ValueInfoProto, attribute_type};

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn node(domain: &str, op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let (input, output) = (strings(input), strings(output));
    let (domain, op_type) = (domain.to_owned(), op_type.to_owned());
    NodeProto { input, output, domain, op_type, ..NodeProto::default() }
}

fn function(
    name: &str,
    (input, output): (&[&str], &[&str]),
    nodes: Vec<NodeProto>,
) -> FunctionProto {
    FunctionProto {
        name: name.to_owned(),
        domain: "local".to_owned(),
        input: strings(input),
        output: strings(output),
        node: nodes,
        opset_import: vec![set("", 13), set("local", 1)],
        ..FunctionProto::default()
    }
}

fn set(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.to_owned(), version }
}

fn model(nodes: Vec<NodeProto>, functions: Vec<FunctionProto>) -> ModelProto {
    ModelProto {
        graph: Some(GraphProto { node: nodes, ..GraphProto::default() }),
        opset_import: vec![set("", 18), set("local", 1)],
        functions,
        ..ModelProto::default()
    }
}

/// The nodes of a model after inlining: `output = operator-version(input)`.
fn inlined(mut model: ModelProto) -> Result<Vec<String>, OnnxError> {
    inline(&mut model, &Limits::default())?;
    let graph = model.graph.unwrap();
    let text = |node: &NodeProto| {
        let (input, output) = (node.input.join(","), node.output.join(","));
        format!("{output} = {}-{}({input})", node.op_type, node.since_version)
    };
    Ok(graph.node.iter().map(text).collect())
}

#[test]
fn a_call_becomes_its_body_with_unique_names() {
    let nodes = vec![node("", "Relu", &["a"], &["t"]), node("", "ReduceSum", &["t", "b"], &["c"])];
    let f = function("F", (&["a", "b"], &["c"]), nodes);
    let calls = vec![
        node("local", "F", &["x"], &["t"]),
        node("local", "F", &["t", "x"], &["y"]),
        node("", "ReduceMax", &["y"], &["z"]),
    ];
    let expected = [
        "F/t = Relu-13(x)",
        "t = ReduceSum-13(F/t,)",
        "F/t_1 = Relu-13(t)",
        "y = ReduceSum-13(F/t_1,x)",
        "z = ReduceMax-18(y)",
    ];
    assert_eq!(inlined(model(calls, vec![f])).unwrap(), expected);
}

#[test]
fn functions_may_call_others_but_not_themselves() {
    let f = function("F", (&["a"], &["b"]), vec![node("local", "G", &["a"], &["b"])]);
    let g = function("G", (&["a"], &["b"]), vec![node("", "Abs", &["a"], &["b"])]);
    let call = || vec![node("local", "F", &["x"], &["y"])];
    assert_eq!(inlined(model(call(), vec![f.clone(), g])).unwrap(), ["y = Abs-13(x)"]);
    let g = function("G", (&["a"], &["b"]), vec![node("local", "F", &["a"], &["b"])]);
    let error = inlined(model(call(), vec![f, g])).unwrap_err();
    assert_eq!(error.to_string(), "function `F`: it calls itself");
}

/// Each calls the previous one ten times: ten to the tenth nodes.
#[test]
fn exponential_growth_is_refused() {
    let name = |i: usize| format!("F{i}");
    let body = |i: usize| match i {
        0 => vec![node("", "Abs", &["a"], &["b"])],
        _ => (0..10).map(|_| node("local", &name(i - 1), &["a"], &["b"])).collect(),
    };
    let functions = (0..11).map(|i| function(&name(i), (&["a"], &["b"]), body(i))).collect();
    let error = inlined(model(vec![node("local", "F10", &["x"], &["y"])], functions)).unwrap_err();
    assert!(error.to_string().ends_with("its calls take too much memory"), "{error}");
}

/// A small function, whose call has a name or an attribute that all of its nodes would repeat.
#[test]
fn repeating_long_names_too_often_is_refused() {
    let reference = AttributeProto {
        name: "x".to_owned(),
        ref_attr_name: "given".to_owned(),
        r#type: attribute_type::INTS,
        ..AttributeProto::default()
    };
    let mut inner = node("", "Op", &["a"], &["t"]);
    inner.attribute = vec![reference];
    let f = function("F", (&["a"], &["b"]), vec![inner; 5_000]);
    let mut named = node("local", "F", &["x"], &["y"]);
    named.name = "n".repeat(200_000);
    let read = node("local", "F", &["x".repeat(200_000).as_str()], &["y"]);
    let mut given = node("local", "F", &["x"], &["y"]);
    let ints = (0..100_000).map(|i| i << 20).collect();
    let r#type = attribute_type::INTS;
    given.attribute = vec![AttributeProto {
        name: "given".to_owned(),
        ints,
        r#type,
        ..AttributeProto::default()
    }];
    for call in [named, read, given] {
        let error = inlined(model(vec![call], vec![f.clone()])).unwrap_err();
        assert!(error.to_string().ends_with("its calls take too much memory"), "{error}");
    }
}

/// In time linear in their number.
#[test]
fn calls_without_a_name_are_numbered() {
    let f = function(
        "F",
        (&["a"], &["b"]),
        vec![node("", "Abs", &["a"], &["t"]), node("", "Neg", &["t"], &["b"])],
    );
    let calls = (0..20_000).map(|i| node("local", "F", &["x"], &[format!("y{i}").as_str()]));
    let nodes = inlined(model(calls.collect(), vec![f])).unwrap();
    assert_eq!(nodes[0], "F/t = Abs-13(x)");
    assert_eq!(nodes[39_998], "F/t_19999 = Abs-13(x)");
}

#[test]
fn attributes_are_those_of_the_node_or_defaults_or_left_out() {
    let int = |name: &str, i| AttributeProto {
        name: name.to_owned(),
        i: Some(i),
        r#type: attribute_type::INT,
        ..AttributeProto::default()
    };
    let reference = |name: &str, of: &str| AttributeProto {
        name: name.to_owned(),
        ref_attr_name: of.to_owned(),
        r#type: attribute_type::INT,
        ..AttributeProto::default()
    };
    let mut inner = node("", "Op", &["a"], &["b"]);
    inner.attribute =
        vec![reference("x", "given"), reference("y", "default"), reference("z", "none")];
    let mut f = function("F", (&["a"], &["b"]), vec![inner]);
    f.attribute_proto = vec![int("given", 1), int("default", 2)];
    let mut call = node("local", "F", &["x"], &["y"]);
    call.attribute = vec![int("given", 7)];
    let mut model = model(vec![call], vec![f]);
    inline(&mut model, &Limits::default()).unwrap();
    assert_eq!(model.graph.unwrap().node[0].attribute, [int("x", 7), int("y", 2)]);
}

#[test]
fn graphs_of_a_body_capture_its_values_and_keep_their_own() {
    let value = |name: &str| ValueInfoProto { name: name.to_owned(), r#type: None };
    let branch = GraphProto {
        node: vec![node("", "Add", &["a", "t"], &["t"])],
        input: vec![value("t")],
        output: vec![value("t")],
        ..GraphProto::default()
    };
    let mut inner = node("", "If", &["a"], &["b"]);
    let g = Some(Box::new(branch));
    inner.attribute =
        vec![AttributeProto { name: "then_branch".to_owned(), g, ..AttributeProto::default() }];
    let f = function("F", (&["a"], &["b"]), vec![node("", "Abs", &["a"], &["t"]), inner]);
    let mut model = model(vec![node("local", "F", &["x"], &["y"])], vec![f]);
    inline(&mut model, &Limits::default()).unwrap();
    let graph = model.graph.unwrap();
    let branch = graph.node[1].attribute[0].g.as_ref().unwrap();
    assert_eq!(branch.node[0].input, ["x", "F/t_1"]);
    assert_eq!(branch.output[0].name, "F/t_1");
    assert_eq!(branch.node[0].since_version, 13);
}

#[test]
fn an_output_that_is_an_input_is_copied() {
    let f = function("F", (&["a"], &["a", "a"]), Vec::new());
    let calls = vec![node("local", "F", &["x"], &["y", "z"])];
    assert_eq!(
        inlined(model(calls, vec![f])).unwrap(),
        ["y = Identity-13(x)", "z = Identity-13(x)"]
    );
}
