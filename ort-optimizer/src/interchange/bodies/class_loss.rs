//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. The operators of their bodies mean the same in every version of
//! the operator set.

use ort_ops::ops::class_loss::{ClassLoss, Reduction};

use super::{Body, Call};
use crate::pass::Refusal;

const WEIGHT: usize = 2;

/// The losses `[N, 1, D]` are elements picked from the logarithms of probabilities, `[N, C, D]`.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let loss: &ClassLoss = call.node.operator().ok_or(Refusal("it is not a loss"))?;
    let mut body = Body::new(&["x", "target", "weight"], &["loss", "log_probability"]);
    body.add(
        "by_class = const int64[3] [0, 0, -1]
         scores = Reshape-5 (x, by_class)",
    );
    body.add(if loss.is_softmax {
        "dims = Shape-1 (x)
         by_sample = Transpose-1 [perm: [0, 2, 1]] (scores)
         normalized = LogSoftmax-11 [axis: 2] (by_sample)
         logarithms = Transpose-1 [perm: [0, 2, 1]] (normalized)
         log_probability = Reshape-5 (logarithms, dims)"
    } else {
        "logarithms = Identity-1 (scores)"
    });
    labels(call, loss, &mut body)?;
    losses(call, loss, &mut body);
    reduced(call, loss, &mut body)?;
    Ok(body)
}

/// `class`: the label of each sample, or 0 for an ignored one.
fn labels(call: &Call<'_>, loss: &ClassLoss, body: &mut Body) -> Result<(), Refusal> {
    let (dtype, label) = (call.dtype(0)?, call.dtype(1)?);
    body.add(
        "of_class = const int64[3] [0, 1, -1]
         label = Reshape-5 (target, of_class)",
    );
    body.add(match loss.ignore_index {
        Some(ignored) => format!(
            "ignored = const {label}[] [{ignored}]
             is_ignored = Equal-11 (label, ignored)
             first = const {label}[] [0]
             zero = const {dtype}[] [0]
             class = Where-9 (is_ignored, first, label)"
        ),
        None => "class = Identity-1 (label)".to_owned(),
    });
    Ok(())
}

/// `counted`: the loss of each sample; 0 for an ignored one, also if its probability is 0.
fn losses(call: &Call<'_>, loss: &ClassLoss, body: &mut Body) {
    body.add(
        "picked = GatherElements-11 [axis: 1] (logarithms, class)
         negative = Neg-6 (picked)",
    );
    body.add(if call.has(WEIGHT) {
        "weights = Gather-11 [axis: 0] (weight, class)
         weighted = Mul-7 (negative, weights)"
    } else {
        "weighted = Identity-1 (negative)"
    });
    body.add(if loss.ignore_index.is_some() {
        "counted = Where-9 (is_ignored, zero, weighted)"
    } else {
        "counted = Identity-1 (weighted)"
    });
}

/// `loss`: all, their sum, or their sum over that of the weights of samples that are not ignored.
fn reduced(call: &Call<'_>, loss: &ClassLoss, body: &mut Body) -> Result<(), Refusal> {
    let has_ignored = loss.ignore_index.is_some();
    match loss.reduction {
        Reduction::None => body.add(
            "shape = Shape-1 (target)
             loss = Reshape-5 (counted, shape)",
        ),
        Reduction::Sum => body.add("loss = ReduceSum-11 [keepdims: 0] (counted)"),
        Reduction::Mean if call.has(WEIGHT) || has_ignored => {
            if !call.has(WEIGHT) {
                body.add(format!("weights = const {}[] [1]", call.dtype(0)?));
            }
            body.add(if has_ignored {
                "counts = Where-9 (is_ignored, zero, weights)"
            } else {
                "counts = Identity-1 (weights)"
            });
            body.add(
                "total = ReduceSum-11 [keepdims: 0] (counted)
                 count = ReduceSum-11 [keepdims: 0] (counts)
                 loss = Div-7 (total, count)",
            );
        }
        Reduction::Mean => body.add("loss = ReduceMean-11 [keepdims: 0] (counted)"),
    }
    Ok(())
}
