//! StringNormalizer: words without stop words, in one case.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, Shape, text_of};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "StringNormalizer",
    versions: (10, 10),
    types: DType::is_string,
    build: StringNormalizer::build,
}];

/// StringNormalizer: the words of `x: [C]` or `[1, C]` that are not stop words, in the chosen case. If none is left,
/// the result is one empty string. Letters change case by Unicode, in any locale.
///
/// Source: ONNX operator set, StringNormalizer-10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringNormalizer {
    /// The case of the result.
    pub case: Case,
    /// Whether stop words are case-sensitive.
    pub is_case_sensitive: bool,
    /// The words to drop, in lower case unless case-sensitive.
    pub stop_words: Vec<String>,
}

/// The case of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Unchanged.
    Keep,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
}

impl StringNormalizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        spec.ignore("locale");
        let name = "case_change_action";
        let case = match spec.string(name)? {
            None | Some("NONE") => Case::Keep,
            Some("LOWER") => Case::Lower,
            Some("UPPER") => Case::Upper,
            Some(other) => return Err(OpError::AttributeValue { name, found: other.to_owned() }),
        };
        let is_case_sensitive = spec.flag("is_case_sensitive", false)?;
        let mut stop_words = spec.strings("stopwords")?.unwrap_or_default().to_vec();
        if !is_case_sensitive {
            stop_words.iter_mut().for_each(|word| *word = word.to_lowercase());
        }
        Ok(Arc::new(Self { case, is_case_sensitive, stop_words }))
    }

    fn is_stop_word(&self, word: &str) -> bool {
        if self.is_case_sensitive {
            self.stop_words.iter().any(|stop| stop == word)
        } else {
            let word = word.to_lowercase();
            self.stop_words.contains(&word)
        }
    }
}

fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "1, or 2 with one row", found }
}

impl Operator for StringNormalizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_string)?;
        // Without stop words no word is dropped, but an empty list becomes one empty string.
        let left = |n: &Dim| match n {
            Dim::Known(n) if self.stop_words.is_empty() => Dim::Known((*n).max(1)),
            _ => Dim::Unknown,
        };
        Ok(vec![match inputs.fact(0)?.dims() {
            None => Fact::unranked(DType::String),
            Some([n]) => Fact::tensor(DType::String, [left(n)]),
            Some([rows, n]) if rows.known().is_none_or(|rows| rows == 1) => {
                Fact::tensor(DType::String, [Dim::Known(1), left(n)])
            }
            Some(dims) => return Err(wrong_rank(dims.len())),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        if !matches!(x.shape(), [_] | [1, _]) {
            return Err(wrong_rank(x.shape().len()));
        }
        let kept = x.as_strings()?.iter().filter(|word| !self.is_stop_word(word));
        let mut words = Room::new();
        for word in kept {
            words.push(match self.case {
                Case::Keep => text_of(&[word])?,
                Case::Lower => text_of(&[&word.to_lowercase()])?,
                Case::Upper => text_of(&[&word.to_uppercase()])?,
            })?;
        }
        if words.is_empty() {
            words.push(String::new())?;
        }
        // bounded: rank
        let mut shape = Shape::from_elem(1, x.shape().len());
        shape[x.shape().len() - 1] = words.len();
        let y = outputs[0].tensor(DType::String, &shape)?.into_strings()?;
        y.iter_mut().zip(words).for_each(|(y, word)| *y = word);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::Case;

    #[test]
    fn stop_words_go_and_letters_change() {
        let cases: [(&str, i64, &[&str], &[&str], Option<&[&str]>); 7] = [
            ("NONE", 0, &[], &["Mon", "É"], Some(&["Mon", "É"])),
            ("LOWER", 0, &[], &["Mon", "É"], Some(&["mon", "é"])),
            ("UPPER", 1, &["mon"], &["Mon", "mon"], Some(&["MON"])),
            ("NONE", 0, &["MON"], &["Mon", "Tue"], Some(&["Tue"])),
            ("NONE", 0, &["mon"], &["mon"], Some(&[""])),
            ("NONE", 0, &[], &[], Some(&[""])),
            ("TITLE", 0, &[], &["a"], None),
        ];
        for (action, sensitive, stop_words, x, expected) in cases {
            let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
            for rows in [&[][..], &[1]] {
                let tensor = |x: &[&str]| {
                    let shape: Vec<usize> = rows.iter().copied().chain([x.len()]).collect();
                    Tensor::from_strings(&shape, words(x)).unwrap()
                };
                let case = Case::new("StringNormalizer", 10)
                    .attr("case_change_action", Attr::String(action.into()))
                    .attr("is_case_sensitive", Attr::Int(sensitive))
                    .attr("stopwords", Attr::Strings(words(stop_words)));
                assert_eq!(case.tensor(&[tensor(x)]).ok(), expected.map(tensor), "{x:?}");
            }
        }
        let matrix = Tensor::from_strings(&[2, 1], vec![String::new(); 2]).unwrap();
        assert!(Case::new("StringNormalizer", 10).tensor(&[matrix]).is_err());
    }
}
