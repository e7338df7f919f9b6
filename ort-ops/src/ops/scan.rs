//! Scan: runs a subgraph for each slice of its inputs. The plan runs it; this file only infers its outputs.

// collects are bounded: by the rank and the body's outputs

use std::sync::Arc;

use ort_graph::{
    Behaviour, Control, Dim, Dims, Fact, Facts, Graph, NodeSpec, OpDef, OpError, Operator,
};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::{join_facts, normalize_axis};
use crate::ops::loop_::{body_output, check_body, invariant};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Scan",
    versions: (8, 25),
    types: DType::is_any,
    build: Scan::build,
}];

/// Scan: `(v…, s…) = body(v…, x…)` for each slice `x` of the scanned inputs, which come after the
/// first `v`. The outputs are the last `v`, then each `s` of all iterations, stacked along a new
/// axis.
///
/// In version 8 every input has a batch axis in front, each batch is scanned along its own first
/// axis, and the optional input 0 is the number of slices of each batch.
///
/// Source: ONNX operator set, Scan-25 and Scan-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How many values are carried from one iteration to the next.
    pub n_carried: usize,
    /// The scanned inputs.
    pub scanned: Vec<ScanAxis>,
    /// The stacked outputs.
    pub stacked: Vec<ScanAxis>,
    /// Whether the node follows version 8.
    pub is_batched: bool,
}

/// The slices of a scanned input or stacked output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanAxis {
    /// The axis, `−rank..rank` of the input or output; in version 8 not counting the batch axis.
    pub axis: i64,
    /// Whether the first iteration has the last slice.
    pub is_reversed: bool,
}

impl Scan {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let body = spec.graph("body")?.ok_or(OpError::MissingAttribute { name: "body" })?;
        let is_batched = spec.since_version < 9;
        let name = "num_scan_inputs";
        let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
        let n_states_and_scanned = spec.inputs.len().saturating_sub(usize::from(is_batched));
        let n_scanned = usize::try_from(n).ok().filter(|n| (1..=n_states_and_scanned).contains(n));
        let n_scanned =
            n_scanned.ok_or_else(|| OpError::AttributeValue { name, found: n.to_string() })?;
        let n_carried = n_states_and_scanned - n_scanned;
        check_body(body, n_states_and_scanned, spec.n_outputs.max(n_carried))?;
        let n_stacked = body.outputs().len() - n_carried;
        let (scanned, stacked) = if is_batched {
            (axes(spec, n_scanned, None, "directions")?, forward(n_stacked))
        } else {
            (
                axes(spec, n_scanned, Some("scan_input_axes"), "scan_input_directions")?,
                axes(spec, n_stacked, Some("scan_output_axes"), "scan_output_directions")?,
            )
        };
        Ok(Arc::new(Self { n_carried, scanned, stacked, is_batched }))
    }

    /// The length of what is scanned (and, in version 8, the number of batches before it).
    fn lengths(&self, inputs: &Facts<'_>) -> Result<Dims, OpError> {
        let batch = usize::from(self.is_batched);
        // bounded: rank
        let mut lengths = Dims::from_elem(Dim::Unknown, 1 + batch);
        for (i, scanned) in self.scanned.iter().enumerate() {
            let index = batch + self.n_carried + i;
            let Some(dims) = inputs.fact(index)?.dims() else { continue };
            let wrong = OpError::InputRank { index, expected: "1 or more", found: dims.len() };
            let own = dims.get(batch..).ok_or(wrong)?;
            let axis = batch + normalize_axis(scanned.axis, own.len())?;
            let found = dims[..batch].iter().chain([&dims[axis]]);
            for (length, found) in lengths.iter_mut().zip(found) {
                *length = length.unify(found).ok_or_else(|| OpError::Shapes {
                    what: "scanned inputs",
                    left: vec![length.known().unwrap_or(0)],
                    right: vec![found.known().unwrap_or(0)],
                })?;
            }
        }
        Ok(lengths)
    }
}

fn forward(n: usize) -> Vec<ScanAxis> {
    // bounded: as many as the node has
    vec![ScanAxis { axis: 0, is_reversed: false }; n]
}

/// Axes and directions of `n` inputs or outputs; without the attributes 0 and forwards.
fn axes(
    spec: &NodeSpec<'_>,
    n: usize,
    axes: Option<&'static str>,
    directions: &'static str,
) -> Result<Vec<ScanAxis>, OpError> {
    let mut found = forward(n);
    let wrong = |name, list: &[i64]| OpError::AttributeValue { name, found: format!("{list:?}") };
    if let Some(name) = axes
        && let Some(list) = spec.ints(name)?
    {
        if list.len() != n {
            return Err(wrong(name, list));
        }
        found.iter_mut().zip(list).for_each(|(found, &axis)| found.axis = axis);
    }
    if let Some(list) = spec.ints(directions)? {
        if list.len() != n || list.iter().any(|flag| !matches!(flag, 0 | 1)) {
            return Err(wrong(directions, list));
        }
        found.iter_mut().zip(list).for_each(|(found, &flag)| found.is_reversed = flag == 1);
    }
    Ok(found)
}

/// The item with the axes of `lengths`, the last of them at `axis`.
fn stacked(item: &Fact, lengths: &[Dim], axis: i64) -> Result<Fact, OpError> {
    let Some(dtype) = item.dtype() else { return Ok(Fact::UNKNOWN) };
    let (Some(own), Some((length, batch))) = (item.dims(), lengths.split_last()) else {
        return Ok(Fact::unranked(dtype));
    };
    let mut dims: Dims = own.iter().map(invariant).collect();
    dims.insert(normalize_axis(axis, own.len() + 1)?, length.clone());
    Ok(Fact::tensor(dtype, batch.iter().cloned().chain(dims)))
}

/// The final fact of a carried value: it has a batch axis outside, but none inside.
fn batched(initial: &Fact, last: &Fact) -> Result<Fact, OpError> {
    let (Some(dtype), Some(dims)) = (last.dtype(), last.dims()) else {
        return Ok(Fact { constant: None, ..initial.clone() });
    };
    let batch = initial.dims().and_then(<[Dim]>::first).cloned().unwrap_or(Dim::Unknown);
    let dims = std::iter::once(batch).chain(dims.iter().cloned());
    join_facts(initial, &Fact::tensor(dtype, dims))
}

impl Operator for Scan {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        if self.is_batched {
            inputs.expect_dtype(0, DType::I64)?;
        }
        let body: &Graph = inputs.subgraph("body")?;
        let lengths = self.lengths(inputs)?;
        let carried = (0..self.n_carried).map(|i| {
            let last = body_output(body, i);
            if self.is_batched {
                batched(inputs.fact(1 + i)?, &last)
            } else {
                join_facts(inputs.fact(i)?, &last)
            }
        });
        let stacked = self.stacked.iter().enumerate().map(|(i, output)| {
            stacked(&body_output(body, self.n_carried + i), &lengths, output.axis)
        });
        carried.chain(stacked).collect()
    }

    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "Scan outside a plan" })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { control: Some(Control::Scan), ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use ort_graph::{Attr, Attrs};

    use super::*;

    /// A body of one carried value, one scanned input and one stacked output.
    fn body() -> Graph {
        let mut graph = Graph::new();
        let state = Fact::shaped(DType::F32, &[2]);
        let item = Fact::shaped(DType::F32, &[2, 5]);
        let mut add = |fact: &Fact| graph.add_value("", fact.clone()).unwrap();
        let (inputs, outputs) = (vec![add(&state), add(&item)], vec![add(&state), add(&item)]);
        graph.set_inputs(inputs);
        graph.set_outputs(outputs);
        graph
    }

    fn scan(version: i32, n_inputs: usize, attrs: &[(&str, Vec<i64>)]) -> Result<Scan, OpError> {
        let mut all = Attrs::new().with("body", Attr::Graph(Box::new(body())));
        all.set("num_scan_inputs", Attr::Int(1));
        for (name, ints) in attrs {
            all.set(*name, Attr::Ints(ints.clone()));
        }
        let op = Scan::build(&NodeSpec::new(version, &vec![true; n_inputs], 2, &all))?;
        let op: &dyn Any = &*op;
        Ok(op.downcast_ref::<Scan>().unwrap().clone())
    }

    fn infer(op: &Scan, inputs: &[Option<&Fact>]) -> Result<Vec<Fact>, OpError> {
        op.infer(&Facts::new(inputs).with_subgraphs(&[("body", &body())]))
    }

    #[test]
    fn outputs_are_stacked_along_their_axis() {
        let axes = [("scan_input_axes", vec![-1]), ("scan_output_axes", vec![1])];
        let op = scan(25, 2, &axes).unwrap();
        let state = Fact::shaped(DType::F32, &[2]);
        let t = || Dim::Symbol("t".into());
        let x = Fact::tensor(DType::F32, [Dim::Known(2), Dim::Known(5), t()]);
        let stacked = Fact::tensor(DType::F32, [Dim::Known(2), t(), Dim::Known(5)]);
        assert_eq!(infer(&op, &[Some(&state), Some(&x)]), Ok(vec![state, stacked]));
    }

    #[test]
    fn version_8_has_batches() {
        let op = scan(8, 3, &[("directions", vec![1])]).unwrap();
        assert!(op.scanned[0].is_reversed && op.is_batched);
        let state = Fact::shaped(DType::F32, &[3, 2]);
        let x = Fact::shaped(DType::F32, &[3, 7, 2, 5]);
        let expected = vec![state.clone(), x.clone()];
        assert_eq!(infer(&op, &[None, Some(&state), Some(&x)]), Ok(expected));
    }

    #[test]
    fn attributes_have_one_entry_for_each_input_or_output() {
        for attr in [
            ("scan_input_axes", vec![0, 1]),
            ("scan_output_directions", vec![2]),
            ("scan_output_axes", vec![]),
        ] {
            assert!(scan(25, 2, &[attr]).is_err());
        }
        assert!(scan(25, 1, &[]).is_err(), "the body takes two inputs");
    }
}
