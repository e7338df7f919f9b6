//! The inputs of each run other than the cache: tokens, and values that follow from their number.

use ort_session::{Bool, DType, Session, Tensor, TensorError, Type};

use super::config::GenaiConfig;
use crate::failure::Failure;

/// What an input contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// The new tokens: `[1, n]`.
    Ids,
    /// Ones for all tokens: `[1, total]`.
    Mask,
    /// The positions of the new tokens: `[1, n]`, or `[n]`.
    Positions,
    /// The index of the last token: `[1]`.
    Last,
    /// The number of all tokens, and of past ones.
    Total,
    Before,
    /// Whether there are past tokens: Optimum's merged decoders.
    HasCache,
    /// 1: only the last token's logits are computed.
    One,
}

const FEEDS: &[(&str, Feed)] = &[
    ("input_ids", Feed::Ids),
    ("attention_mask", Feed::Mask),
    ("position_ids", Feed::Positions),
    ("cache_position", Feed::Positions),
    ("seqlens_k", Feed::Last),
    ("total_sequence_length", Feed::Total),
    ("total_seq_len", Feed::Total),
    ("past_sequence_length", Feed::Before),
    ("past_seq_len", Feed::Before),
    ("use_cache_branch", Feed::HasCache),
    ("num_logits_to_keep", Feed::One),
];

/// The inputs that each run needs.
#[derive(Debug)]
pub(super) struct Feeds(Vec<Input>);

#[derive(Debug)]
struct Input {
    name: String,
    feed: Feed,
    dtype: DType,
    rank: usize,
}

impl Feeds {
    /// The inputs of a session that are not state.
    pub(super) fn new(
        session: &Session,
        config: &GenaiConfig,
        is_state: impl Fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        let mut feeds = Vec::new();
        for input in session.inputs() {
            if is_state(&input.name) {
                continue;
            }
            let named = |(key, _): &&(&str, Feed)| config.name("inputs", key) == input.name;
            let Some(&(_, feed)) = FEEDS.iter().find(named) else {
                if input.has_default {
                    continue;
                }
                return Err(Failure::NotGenerated { name: input.name, ty: Box::new(input.ty) });
            };
            let (dtype, rank) = match &input.ty {
                Type::Tensor(tensor) => (tensor.dtype, tensor.dims.as_ref().map_or(2, |d| d.len())),
                _ => {
                    return Err(Failure::NotGenerated { name: input.name, ty: Box::new(input.ty) });
                }
            };
            feeds.push(Input { name: input.name, feed, dtype, rank });
        }
        match feeds.iter().any(|input| input.feed == Feed::Ids) {
            true => Ok(Self(feeds)),
            false => Err(Failure::NoIds { names: names(session) }),
        }
    }

    /// The tensors for new tokens after `before` others.
    pub(super) fn tensors(
        &self,
        ids: &[usize],
        before: usize,
    ) -> Result<Vec<(&str, Tensor)>, TensorError> {
        let (n, total) = (ids.len(), before + ids.len());
        let tensor = |input: &Input| -> Result<Tensor, TensorError> {
            let row = [1, n];
            let row = if input.rank == 1 { &row[1..] } else { &row };
            let one = &[1; 2][..input.rank.min(2)];
            match input.feed {
                Feed::Ids => numbers(input.dtype, row, ids.iter().copied()),
                Feed::Positions => numbers(input.dtype, row, before..total),
                Feed::Mask => numbers(input.dtype, &[1, total], std::iter::repeat_n(1, total)),
                Feed::Last => numbers(input.dtype, one, [total.saturating_sub(1)]),
                Feed::Total => numbers(input.dtype, one, [total]),
                Feed::Before => numbers(input.dtype, one, [before]),
                Feed::HasCache => numbers(input.dtype, one, [usize::from(before > 0)]),
                Feed::One => numbers(input.dtype, one, [1]),
            }
        };
        self.0.iter().map(|input| Ok((input.name.as_str(), tensor(input)?))).collect()
    }
}

fn names(session: &Session) -> Vec<String> {
    session.inputs().into_iter().map(|input| format!("`{}`", input.name)).collect()
}

/// A tensor of integers or booleans; an error if the model expects another type.
fn numbers(
    dtype: DType,
    shape: &[usize],
    numbers: impl IntoIterator<Item = usize>,
) -> Result<Tensor, TensorError> {
    let numbers = numbers.into_iter();
    match dtype {
        DType::I32 => {
            let numbers: Vec<i32> = numbers.map(|n| n.try_into().unwrap_or(i32::MAX)).collect();
            Tensor::from_slice(shape, &numbers)
        }
        DType::Bool => {
            let flags: Vec<Bool> = numbers.map(|n| Bool::from(n > 0)).collect();
            Tensor::from_slice(shape, &flags)
        }
        DType::F32 => {
            let numbers: Vec<f32> = numbers.map(|n| n as f32).collect();
            Tensor::from_slice(shape, &numbers)
        }
        DType::I64 => {
            let numbers: Vec<i64> = numbers.map(|n| n.try_into().unwrap_or(i64::MAX)).collect();
            Tensor::from_slice(shape, &numbers)
        }
        found => Err(TensorError::DType { expected: DType::I64, found }),
    }
}
