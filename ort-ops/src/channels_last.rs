//! Operators on images whose channels are the last dimension.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{Inputs, Output, Tensor, TensorError, TensorView, Value, ValueView};

use crate::strided::{Strided, copy};

/// The operator of images `[N, C, …]` with images `[N, …, C]` instead: input 0 and output 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelsLast<O>(
    /// The operator with the channels after the batch.
    pub O,
);

/// The operator in the layout of the attribute `channels_last`.
pub(crate) fn with_layout<O: Operator>(
    spec: &NodeSpec<'_>,
    operator: O,
) -> Result<Arc<dyn Operator>, OpError> {
    match spec.flag("channels_last", false)? {
        true => Ok(Arc::new(ChannelsLast(operator))),
        false => Ok(Arc::new(operator)),
    }
}

impl<O: Operator> Operator for ChannelsLast<O> {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let x = rearranged(inputs.fact(0)?, |dims| dims[1..].rotate_right(1));
        let facts: Vec<_> =
            (0..inputs.len()).map(|i| if i == 0 { Some(&x) } else { inputs.get(i) }).collect();
        let mut facts = self.0.infer(&Facts::new(&facts))?;
        if let Some(y) = facts.first_mut() {
            *y = rearranged(y, |dims| dims[1..].rotate_left(1));
        }
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = channels_first(inputs.tensor(0)?)?;
        let views: Vec<_> = (0..inputs.len())
            .map(|i| if i == 0 { Some(ValueView::Tensor(x.view())) } else { inputs.get(i) })
            .collect();
        let [output, rest @ ..] = outputs else { return Ok(()) };
        let mut first = vec![Output::free()];
        self.0.eval(Inputs::new(&views), &mut first)?;
        debug_assert!(rest.is_empty(), "no such operator has more than one output");
        match first.pop().and_then(Output::into_value) {
            Some(Value::Tensor(y)) => channels_last(y.view(), output),
            _ => Err(TensorError::Kind { expected: "tensor", found: "nothing" }.into()),
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[], ..self.0.behaviour() }
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        self.0.flops(inputs, outputs)
    }
}

/// The fact with its dimensions, if they are known and at least two, as `arrange` leaves them.
fn rearranged(fact: &Fact, arrange: fn(&mut [ort_graph::Dim])) -> Fact {
    let (Some(dtype), Some(dims)) = (fact.dtype(), fact.dims()) else { return fact.clone() };
    let mut dims = dims.to_vec();
    if dims.len() > 1 {
        arrange(&mut dims);
    }
    Fact::tensor(dtype, dims)
}

fn channels_first(x: TensorView<'_>) -> Result<Tensor, OpError> {
    let mut shape = x.shape().to_vec();
    if shape.len() < 2 {
        return Ok(x.to_tensor()?);
    }
    shape[1..].rotate_right(1);
    let mut y = Tensor::zeros(x.dtype(), &shape)?;
    let (c, n_plane) = (shape[1], product(&shape[2..]));
    let from = Strided::new(0, &[n_plane.wrapping_mul(c), 1, c]);
    let to = [shape[0], c, n_plane];
    copy(&to, x, &from, y.view_mut(), &Strided::row_major(&to))?;
    Ok(y)
}

fn channels_last(y: TensorView<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
    let mut shape = y.shape().to_vec();
    if shape.len() < 2 {
        return Ok(output.set(Value::Tensor(y.to_tensor()?))?);
    }
    let (c, n_plane) = (shape[1], product(&shape[2..]));
    shape[1..].rotate_left(1);
    let from = Strided::new(0, &[n_plane.wrapping_mul(c), 1, n_plane]);
    let to = [shape[0], n_plane, c];
    let z = output.tensor(y.dtype(), &shape)?;
    Ok(copy(&to, y, &from, z, &Strided::row_major(&to))?)
}

/// `Π shape`; where it overflows, another dimension is 0 and there is nothing to copy.
fn product(shape: &[usize]) -> usize {
    ort_tensor::n_elements(shape).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ort_graph::Dim;
    use ort_tensor::DType;

    use super::*;

    /// Returns its input.
    #[derive(Debug)]
    struct Same;

    impl Operator for Same {
        fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
            Ok(vec![inputs.fact(0)?.clone()])
        }

        fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
            Ok(outputs[0].set(Value::Tensor(inputs.tensor(0)?.to_tensor()?))?)
        }
    }

    #[test]
    fn what_goes_in_comes_out_whatever_its_rank() {
        for shape in [&[][..], &[2], &[2, 3], &[2, 2, 3], &[1, 2, 2, 3], &[2, 0, 3]] {
            let n = u8::try_from(shape.iter().product::<usize>()).unwrap();
            let x = Tensor::from_slice(shape, &(0..n).collect::<Vec<_>>()).unwrap();
            let mut outputs = [Output::free()];
            let inputs = [Some(ValueView::Tensor(x.view()))];
            ChannelsLast(Same).eval(Inputs::new(&inputs), &mut outputs).unwrap();
            let [output] = outputs;
            assert_eq!(output.into_value(), Some(Value::Tensor(x)), "{shape:?}");
        }
    }

    #[test]
    fn the_operator_sees_the_channels_behind_the_batch() {
        let x = Tensor::from_slice(&[1, 3, 2], &[1_u8, 2, 3, 4, 5, 6]).unwrap();
        let seen = channels_first(x.view()).unwrap();
        assert_eq!(seen, Tensor::from_slice(&[1, 2, 3], &[1_u8, 3, 5, 2, 4, 6]).unwrap());
        let [n, h] = ["n", "h"].map(|name| Dim::Symbol(name.into()));
        let fact = Fact::tensor(DType::U8, [n, h, Dim::Known(2)]);
        assert_eq!(ChannelsLast(Same).infer(&Facts::new(&[Some(&fact)])).unwrap(), [fact]);
    }
}
