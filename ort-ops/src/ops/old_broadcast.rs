//! Functions of two operands as before operator set 7: the second is broadcast to the first only if an attribute
//! enables it, from the axis in another attribute.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator, TensorType, Type};
use ort_tensor::{DType, Inputs, Output, Shape, ValueView};

/// A line is `Name: versions, element types, current version`.
macro_rules! functions {
    ($($name:literal: $versions:expr, $types:expr, $today:literal;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: "",
            name: $name,
            versions: $versions,
            types: $types,
            build: |spec| OldBroadcast::build(($name, $today), $types, spec),
        }),*];
    };
}

functions! {
    "Add": (1, 6), DType::is_number, 14;
    "And": (1, 6), DType::is_bool, 7;
    "Div": (1, 6), DType::is_number, 14;
    "Equal": (1, 6), |dtype| dtype.is_integer() || dtype.is_bool(), 7;
    "Greater": (1, 6), DType::is_float, 7;
    "Less": (1, 6), DType::is_float, 7;
    "Mul": (1, 6), DType::is_number, 14;
    "Or": (1, 6), DType::is_bool, 7;
    "PRelu": (1, 6), DType::is_float, 7;
    "Pow": (1, 6), DType::is_float, 7;
    "Sub": (1, 6), DType::is_number, 14;
    "Xor": (1, 6), DType::is_bool, 7;
}

/// `y = f(a, b)`, where the dimensions of `b` are some of those of `a`: from `axis` on, or the last ones. PRelu takes
/// one slope for each channel, axis 1.
///
/// Source: ONNX operator set, Add-6, Pow-1, PRelu-6 and the like. `broadcast` = 0 is not checked: equal shapes need
/// no broadcasting.
#[derive(Debug)]
pub struct OldBroadcast {
    of_today: Arc<dyn Operator>,
    /// The element types that it takes.
    types: fn(DType) -> bool,
    axis: Option<i64>,
    is_slope: bool,
}

impl OldBroadcast {
    fn build(
        (name, today): (&'static str, i32),
        types: fn(DType) -> bool,
        spec: &NodeSpec<'_>,
    ) -> Result<Arc<dyn Operator>, OpError> {
        spec.ignore("broadcast");
        spec.ignore("consumed_inputs");
        let axis = spec.int("axis")?;
        let none = ort_graph::Attrs::new();
        let of_today = NodeSpec::new(today, spec.inputs, spec.n_outputs, &none);
        let unknown = OpError::Unsupported { what: "an operator that was removed" };
        let defs = super::all().into_iter().flatten();
        let covers = |def: &&OpDef| {
            (def.domain, def.name) == ("", name)
                && (def.versions.0..=def.versions.1).contains(&today)
        };
        let def = defs.into_iter().find(covers).ok_or(unknown)?;
        let of_today = (def.build)(&of_today)?;
        Ok(Arc::new(Self { of_today, types, axis, is_slope: name == "PRelu" }))
    }

    /// The shape of `b` followed by ones, so that it broadcasts by current rules.
    fn aligned<D: Clone>(&self, b: &[D], rank: usize, one: &D) -> Result<Vec<D>, OpError> {
        let first = match self.axis {
            _ if self.is_slope && b.len() == 1 && rank > 1 => 1,
            Some(axis) if axis < 0 => {
                rank.saturating_sub(usize::try_from(axis.unsigned_abs()).unwrap_or(usize::MAX))
            }
            Some(axis) => usize::try_from(axis).unwrap_or(0),
            None => return Ok(b.to_vec()),
        };
        let behind = rank.checked_sub(first).and_then(|left| left.checked_sub(b.len()));
        let wrong =
            || OpError::AttributeValue { name: "axis", found: self.axis.unwrap_or(1).to_string() };
        let behind = behind.ok_or_else(wrong)?;
        // bounded: rank
        Ok(b.iter().cloned().chain(std::iter::repeat_n(one.clone(), behind)).collect())
    }
}

impl Operator for OldBroadcast {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, self.types)?;
        let (a, b) = (inputs.fact(0)?, inputs.fact(1)?);
        let dims = match (a.rank(), b.dims()) {
            (Some(rank), Some(b)) => {
                Some(self.aligned(b, rank, &ort_graph::Dim::Known(1))?.into_iter().collect())
            }
            _ => None,
        };
        let Some(dtype) = b.dtype() else { return self.of_today.infer(inputs) };
        let b = Fact::from(Type::Tensor(TensorType { dtype, dims }));
        let a = Fact { constant: None, ..a.clone() };
        self.of_today.infer(&Facts::new(&[Some(&a), Some(&b)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let shape: Shape = self.aligned(b.shape(), a.shape().len(), &1)?.into_iter().collect();
        let b = b.reshaped(&shape)?;
        let views = [Some(ValueView::Tensor(a)), Some(ValueView::Tensor(b))];
        self.of_today.eval(Inputs::new(&views), outputs)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn the_second_operand_is_stretched_from_the_axis_on() {
        let a = tensor(&[2, 3, 2], &(0..12_u8).map(f32::from).collect::<Vec<_>>());
        let (rows, last) = (tensor(&[3], &[0_f32, 100.0, 200.0]), tensor(&[2], &[0_f32, 100.0]));
        let sum = |b: &ort_tensor::Tensor, axis: Option<i64>| {
            let case = Case::new("Add", 6).attr("broadcast", Attr::Int(1));
            let case = match axis {
                Some(axis) => case.attr("axis", Attr::Int(axis)),
                None => case,
            };
            let sum = case.tensor(&[a.clone(), b.clone()]);
            let sum = sum.map(|sum| sum.as_slice::<f32>().unwrap()[..6].to_vec());
            sum.map_err(|error| error.to_string())
        };
        let by_row = Ok(vec![0_f32, 1.0, 102.0, 103.0, 204.0, 205.0]);
        assert_eq!(sum(&rows, Some(1)), by_row);
        assert_eq!(sum(&rows, Some(-2)), by_row);
        assert_eq!(sum(&last, None), Ok(vec![0_f32, 101.0, 2.0, 103.0, 4.0, 105.0]));
        assert!(sum(&rows, Some(2)).is_err());
    }

    #[test]
    fn prelu_has_a_slope_for_each_channel() {
        let x = tensor(&[1, 2, 2], &[-1_f32, 1.0, -1.0, 1.0]);
        let slope = tensor(&[2], &[0.5_f32, 0.25]);
        let y = Case::new("PRelu", 6).tensor(&[x, slope]);
        assert_eq!(y, Ok(tensor(&[1, 2, 2], &[-0.5_f32, 1.0, -0.25, 1.0])));
    }
}
