//! Dropout: the identity, except in training.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Inputs, Number, Output,
    TensorError, TensorView, bf16, collected, f16, filled, with_dtype,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Dropout",
    versions: (1, 22),
    types: is_allowed,
    build: Dropout::build,
}];

/// Dropout: `y = x`, and every element of the optional `mask` is true. In training `mask` is
/// random, false with probability `ratio`, and `y = mask ? x / (1 − ratio) : 0`.
///
/// `mask` is a boolean from version 10 on; before, it has the type of `x`. With a `seed` every run draws the same
/// mask; ONNX Runtime draws a new one each time.
///
/// Source: ONNX operator set, Dropout-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// When it drops.
    pub mode: Mode,
    /// The seed of the mask, if it is fixed.
    pub seed: Option<i64>,
    /// The ratio if there is no input for it.
    pub ratio: f32,
    /// Whether the mask is boolean.
    pub is_mask_bool: bool,
    /// Whether the node has an output for the mask.
    pub has_mask: bool,
}

/// When Dropout drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    Inference,
    /// Always.
    Training,
    /// If input 2 is true.
    Input,
}

impl Dropout {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let version = spec.since_version;
        if version < 6 {
            spec.ignore("consumed_inputs");
        }
        let mode = match version {
            ..7 if spec.flag("is_test", false)? => Mode::Inference,
            ..7 => Mode::Training,
            12.. if spec.has_input(2) => Mode::Input,
            _ => Mode::Inference,
        };
        let ratio = if version < 12 { spec.float("ratio")? } else { None };
        let seed = if version < 12 { None } else { spec.int("seed")? };
        let (is_mask_bool, has_mask) = (version >= 10, spec.n_outputs > 1);
        Ok(Arc::new(Self { mode, seed, ratio: ratio.unwrap_or(0.5), is_mask_bool, has_mask }))
    }

    /// The ratio in this run: 0 means that nothing is dropped.
    fn ratio(&self, inputs: Inputs<'_>) -> Result<f64, OpError> {
        let is_training = match self.mode {
            Mode::Inference => false,
            Mode::Training => true,
            Mode::Input => {
                let input = inputs.optional_tensor(2)?.map(|x| x.as_slice::<Bool>()).transpose()?;
                input.and_then(<[Bool]>::first).is_some_and(|value| value.get())
            }
        };
        let ratio = match inputs.optional_tensor(1)? {
            _ if !is_training => 0.0,
            Some(x) => to_f64s(x)?.first().copied().unwrap_or(0.5),
            None => f64::from(self.ratio),
        };
        let what = "the ratio is not in [0, 1)";
        if (0.0..1.0).contains(&ratio) {
            Ok(ratio)
        } else {
            Err(OpError::InputValue { index: 1, what })
        }
    }

    /// Which of `n` elements are kept.
    fn mask(&self, n: usize, ratio: f64) -> Result<Vec<bool>, TensorError> {
        if ratio == 0.0 {
            return filled(true, n);
        }
        let seed = self.seed.map(i64::cast_unsigned);
        let mut state = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        collected((0..n).map(|_| uniform(&mut state) >= ratio))
    }
}

/// A number in `[0, 1)`: the 53 upper bits of the next output of SplitMix64.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact in f64")]
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1_u64 << 53) as f64
}

fn is_allowed(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    dtype.is_float() || matches!(dtype, F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}

impl Operator for Dropout {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_allowed)?;
        if inputs.get(1).is_some() {
            inputs.dtype(1, is_allowed)?;
        }
        inputs.expect_dtype(2, DType::Bool)?;
        let x = inputs.fact(0)?;
        let y = Fact { constant: None, ..x.clone() };
        let mask_type = if self.is_mask_bool { DType::Bool } else { dtype };
        let mask = x.dims().map_or_else(
            || Fact::unranked(mask_type),
            |dims| Fact::tensor(mask_type, dims.iter().cloned()),
        );
        Ok(vec![y, mask])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let ratio = self.ratio(inputs)?;
        let mask = self.mask(x.len(), ratio)?;
        if ratio == 0.0 {
            outputs[0].tensor(x.dtype(), x.shape())?.copy_from(x)?;
        } else {
            let y = to_f64s(x)?.into_iter().zip(&mask);
            write(
                &mut outputs[0],
                x,
                y.map(|(x, stays)| if *stays { x / (1.0 - ratio) } else { 0.0 }),
            )?;
        }
        let Some(output) = outputs.get_mut(1).filter(|output| output.is_wanted()) else {
            return Ok(());
        };
        if !self.is_mask_bool {
            return write(output, x, mask.into_iter().map(|stays| f64::from(u8::from(stays))));
        }
        let to = output.tensor(DType::Bool, x.shape())?.into_slice::<Bool>()?;
        to.iter_mut().zip(mask).for_each(|(to, stays)| *to = stays.into());
        Ok(())
    }

    fn behaviour(&self) -> Behaviour {
        let is_inference = self.mode == Mode::Inference;
        Behaviour {
            is_alias: is_inference && !self.has_mask,
            is_deterministic: is_inference || self.seed.is_some(),
            ..Behaviour::default()
        }
    }
}

/// A float of 8 bits or more, through `f64`.
trait Float: Element {
    fn widened(self) -> f64;
    fn narrowed(value: f64) -> Self;
}

macro_rules! float8 {
    ($($ty:ty),*) => { $(
        impl Float for $ty {
            fn widened(self) -> f64 {
                f64::from(self.to_f32())
            }
            fn narrowed(value: f64) -> Self {
                Self::from_f64(value, true)
            }
        }
    )* };
}

macro_rules! float {
    ($($ty:ty),*) => { $(
        impl Float for $ty {
            fn widened(self) -> f64 {
                Number::to_f64(self)
            }
            fn narrowed(value: f64) -> Self {
                Number::from_f64(value)
            }
        }
    )* };
}

float8!(F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz);
float!(f16, bf16, f32, f64);

fn to_f64s(x: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    with_dtype!(x.dtype(), [f32, f64, f16, bf16, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
        T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| x.widened()))?),
        else => Err(OpError::Unsupported { what: "an element type that is not a float" }))
}

/// Writes floats of the type and shape of `x`.
fn write(
    output: &mut Output<'_>,
    x: TensorView<'_>,
    values: impl Iterator<Item = f64>,
) -> Result<(), OpError> {
    let y = output.tensor(x.dtype(), x.shape())?;
    with_dtype!(x.dtype(), [f32, f64, f16, bf16, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
        T => y.into_slice::<T>()?.iter_mut().zip(values).for_each(|(y, x)| *y = T::narrowed(x)),
        else => return Err(OpError::Unsupported { what: "an element type that is not a float" }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn inference_drops_nothing() {
        let x = tensor(&[2, 2], &[1_f32, f32::NAN, -0.0, f32::INFINITY]);
        for version in [7, 10, 12, 22] {
            let case = Case::new("Dropout", version);
            assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(x.clone()));
            let mask = match version {
                7 => tensor(&[2, 2], &[1_f32; 4]),
                _ => tensor(&[2, 2], &[Bool::from(true); 4]),
            };
            let y = case.outputs(2).run(std::slice::from_ref(&x));
            assert_eq!(y, Ok(vec![Value::Tensor(x.clone()), Value::Tensor(mask)]));
        }
        let old = Case::new("Dropout", 1).attr("is_test", Attr::Int(1));
        assert_eq!(old.tensor(std::slice::from_ref(&x)), Ok(x));
    }

    #[test]
    fn training_drops_and_scales_by_the_mask() {
        let case = Case::new("Dropout", 22).attr("seed", Attr::Int(3)).outputs(2);
        let x: Vec<f32> = (1_u8..=100).map(f32::from).collect();
        let inputs =
            [tensor(&[100], &x), Tensor::scalar(0.5_f32), Tensor::scalar(Bool::from(true))];
        let values = case.run(&inputs).unwrap();
        assert_eq!(case.run(&inputs).as_ref(), Ok(&values), "a seed fixes the mask");
        let y = values[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
        let mask = values[1].as_tensor().unwrap().as_slice::<Bool>().unwrap();
        for ((x, y), stays) in x.iter().zip(y).zip(mask) {
            assert_eq!(*y, if stays.get() { x * 2.0 } else { 0.0 });
        }
        let n_kept = mask.iter().filter(|stays| stays.get()).count();
        assert!((25..75).contains(&n_kept), "{n_kept} of 100 stay");
    }

    #[test]
    fn a_ratio_of_one_is_refused_and_of_zero_copies() {
        let x = tensor(&[1], &[F8E4M3Fn::from_f32(1.5, true)]);
        let train = Tensor::scalar(Bool::from(true));
        let run = |ratio: f32| {
            Case::new("Dropout", 22).tensor(&[x.clone(), Tensor::scalar(ratio), train.clone()])
        };
        assert_eq!(run(0.0), Ok(x.clone()));
        assert!(run(1.0).is_err() && run(f32::NAN).is_err());
    }
}
