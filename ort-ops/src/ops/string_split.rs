//! StringSplit: strings cut at a delimiter.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Room, Shape, TensorError, collected, text_of, with_room,
};

use crate::infer::tensor_fact;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "StringSplit",
    versions: (20, 20),
    types: DType::is_string,
    build: StringSplit::build,
}];

/// StringSplit: along a new last axis of output 0 the parts of each string between delimiters,
/// and empty strings after the last; output 1 (int64) is the number of parts. Without a delimiter, any amount of
/// white space separates, and none is left at either end.
///
/// ONNX Runtime only treats the space character as white space, and gives an empty string no part if there is a
/// delimiter; the specification's reference gives it one.
///
/// Source: ONNX operator set, StringSplit-20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringSplit {
    /// The delimiter; none for white space.
    pub delimiter: Option<String>,
    /// The maximum number of splits.
    pub max_split: Option<usize>,
}

impl StringSplit {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let delimiter = spec.string("delimiter")?.filter(|delimiter| !delimiter.is_empty());
        // A negative number means no limit, as in the reference.
        let max_split = spec.int("maxsplit")?.and_then(|n| usize::try_from(n).ok());
        Ok(Arc::new(Self { delimiter: delimiter.map(str::to_owned), max_split }))
    }

    fn parts<'a>(&self, text: &'a str) -> Result<Vec<&'a str>, TensorError> {
        let n_parts = self.max_split.map_or(usize::MAX, |n| n.saturating_add(1));
        if let Some(delimiter) = &self.delimiter {
            return collected(text.splitn(n_parts, delimiter.as_str()));
        }
        let mut parts = Room::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = rest.find(char::is_whitespace).filter(|_| parts.len() + 1 < n_parts);
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            parts.push(part)?;
            rest = after.trim_start();
        }
        Ok(parts.into_vec())
    }
}

impl Operator for StringSplit {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_string)?;
        let x: Option<Dims> = inputs.fact(0)?.dims().map(Into::into);
        let parts = x.clone().map(|x| x.into_iter().chain([Dim::Unknown]).collect());
        Ok(vec![tensor_fact(DType::String, parts), tensor_fact(DType::I64, x)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let texts = x.as_strings()?;
        let mut parts: Vec<Vec<&str>> = with_room(texts.len())?;
        let mut pace = Pace::new();
        for text in texts {
            pace.go(text.len().saturating_add(16))?;
            let of_text = self.parts(text)?;
            parts.push(of_text);
        }
        let most = parts.iter().map(Vec::len).max().unwrap_or(0);
        if outputs[0].is_wanted() {
            let shape: Shape = x.shape().iter().copied().chain([most]).collect();
            let y = outputs[0].tensor(DType::String, &shape)?.into_strings()?;
            for (y, parts) in y.chunks_exact_mut(most.max(1)).zip(&parts) {
                let parts = parts.iter().copied().chain(std::iter::repeat(""));
                for (y, part) in y.iter_mut().zip(parts) {
                    pace.go(part.len().saturating_add(16))?;
                    *y = text_of(&[part])?;
                }
            }
        }
        if let Some(output) = outputs.get_mut(1).filter(|output| output.is_wanted()) {
            let counts = output.tensor(DType::I64, x.shape())?.into_slice::<i64>()?;
            for (count, parts) in counts.iter_mut().zip(&parts) {
                *count = i64::try_from(parts.len()).map_err(|_| OpError::TooLarge)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn delimiters_cut_and_white_space_does_without() {
        let cases: [(&str, Option<&str>, Option<i64>, &[&str]); 11] = [
            ("  a  b\tc ", None, None, &["a", "b", "c"]),
            ("  a  b  c ", None, Some(1), &["a", "b  c"]),
            ("a b", Some(""), Some(0), &["a b"]),
            ("", None, None, &[]),
            (" ", None, Some(0), &[]),
            ("a,,b,", Some(","), None, &["a", "", "b", ""]),
            (",a,b", Some(","), Some(1), &["", "a,b"]),
            ("a,b", Some(","), Some(0), &["a,b"]),
            ("a,b", Some(","), Some(-1), &["a", "b"]),
            ("", Some(","), None, &[""]),
            ("aééb", Some("é"), None, &["a", "", "b"]),
        ];
        for (text, delimiter, max_split, expected) in cases {
            let delimiter = delimiter.filter(|d| !d.is_empty()).map(str::to_owned);
            let max_split = max_split.and_then(|n| n.try_into().ok());
            assert_eq!(
                StringSplit { delimiter, max_split }.parts(text).unwrap(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn shorter_rows_are_filled_with_empty_strings() {
        let strings = |shape: &[usize], words: &[&str]| {
            Tensor::from_strings(shape, words.iter().map(|w| (*w).to_owned()).collect()).unwrap()
        };
        let case = || Case::new("StringSplit", 20).attr("delimiter", Attr::String("-".into()));
        let values = case().outputs(2).run(&[strings(&[2], &["a-b", "c"])]).unwrap();
        assert_eq!(values[0], strings(&[2, 2], &["a", "b", "c", ""]).into());
        assert_eq!(values[1], tensor(&[2], &[2_i64, 1]).into());
        let values = case().outputs(2).run(&[strings(&[0], &[])]).unwrap();
        assert_eq!(values[0], strings(&[0, 0], &[]).into());
        assert_eq!(values[1], tensor::<i64>(&[0], &[]).into());
    }
}
