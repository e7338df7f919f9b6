//! Tokenizer: strings cut into tokens.

// collects are bounded: by the rank, and as long as the file's lists

use std::slice;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Room, Shape, TensorError, collected, go_on, text_of,
    try_collected, with_room,
};

use crate::pattern::{Finder, Search};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "Tokenizer",
    versions: (1, 1),
    types: DType::is_string,
    build: Tokenizer::build,
}];

/// Tokenizer: along a new last axis the tokens of each string of `x: [C]` or `[N, C]`, followed by the pad value. If
/// no string has a token the axis is empty, and if there is no string, it is missing. Patterns are
/// [`Search`]es.
///
/// Source: com.microsoft, Tokenizer-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// Whether a string begins with the token U+0002 and ends with U+0003.
    pub is_marked: bool,
    /// The padding after the last token.
    pub pad_value: String,
    /// The minimum length of a token in characters; at least 1.
    pub min_char_num: usize,
    /// How tokens are found.
    pub rule: Rule,
}

/// How tokens are found.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Each character is a token.
    Characters,
    /// Matches are tokens.
    Expression(Box<Search>),
    /// Tokens are separated by matches of the first, then by matches of the second, and so on.
    Separators(Vec<Search>),
}

impl Tokenizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let missing = |name| OpError::MissingAttribute { name };
        let least = spec.int("mincharnum")?.ok_or_else(|| missing("mincharnum"))?;
        let rule = Rule::of_node(spec)?;
        let min_char_num = usize::try_from(least).ok().filter(|&least| match rule {
            Rule::Characters => least == 1,
            _ => least > 0,
        });
        let wrong = || OpError::AttributeValue { name: "mincharnum", found: least.to_string() };
        Ok(Arc::new(Self {
            is_marked: spec.int("mark")?.ok_or_else(|| missing("mark"))? != 0,
            pad_value: spec.string("pad_value")?.ok_or_else(|| missing("pad_value"))?.to_owned(),
            min_char_num: min_char_num.ok_or_else(wrong)?,
            rule,
        }))
    }

    fn tokens<'a>(
        &self,
        text: &'a str,
        finders: &mut [Finder<'_>],
        pace: &mut Pace,
    ) -> Result<Vec<&'a str>, TensorError> {
        let mut tokens = match &self.rule {
            Rule::Characters => collected(text.split_inclusive(|_| true))?,
            Rule::Expression(_) => {
                let mut tokens = Room::new();
                finders[0].each(text, pace, |found| tokens.push(&text[found]))?;
                tokens.into_vec()
            }
            Rule::Separators(_) => {
                finders.iter_mut().try_fold(vec![text], |tokens, separator| {
                    let mut parts = Room::new();
                    for token in tokens {
                        between(separator, token, &mut parts, pace)?;
                    }
                    Ok::<_, TensorError>(parts.into_vec())
                })?
            }
        };
        tokens.retain(|token| token.chars().nth(self.min_char_num - 1).is_some());
        Ok(tokens)
    }
}

impl Rule {
    fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let (separators, token) = (spec.strings("separators")?, spec.string("tokenexp")?);
        let name = "tokenexp";
        match (separators.unwrap_or_default(), token) {
            (_, Some(".")) => Ok(Rule::Characters),
            (_, Some("")) => Err(OpError::AttributeValue { name, found: String::new() }),
            (_, Some(token)) => Ok(Rule::Expression(Box::new(Search::new(name, token)?))),
            ([], None) => Err(OpError::MissingAttribute { name: "separators" }),
            ([nothing], None) if nothing.is_empty() => Ok(Rule::Characters),
            (separators, None) => {
                let separators = separators.iter().map(|text| Search::new("separators", text));
                Ok(Rule::Separators(separators.collect::<Result<_, _>>()?))
            }
        }
    }
}

/// Adds what is between the matches to `parts`. An empty match includes the next character.
fn between<'a>(
    separator: &mut Finder<'_>,
    text: &'a str,
    parts: &mut Room<&'a str>,
    pace: &mut Pace,
) -> Result<(), TensorError> {
    let mut start = 0;
    separator.each(text, pace, |found| {
        let part = &text[start..found.start];
        let included = text[found.end..].chars().next().filter(|_| found.is_empty());
        start = found.end + included.map_or(0, char::len_utf8);
        parts.push(part)
    })?;
    parts.push(&text[start..])
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "1 or 2", found }
}

impl Operator for Tokenizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_string)?;
        let Some(x) = inputs.fact(0)?.dims() else {
            return Ok(vec![Fact::unranked(DType::String)]);
        };
        if !(1..=2).contains(&x.len()) {
            return Err(wrong_rank(x.len()));
        }
        let known: Option<Shape> = x.iter().map(Dim::known).collect();
        Ok(vec![match known {
            // Whether there is an axis of tokens depends on the number of strings.
            None if !x.contains(&Dim::Known(0)) => Fact::unranked(DType::String),
            Some(shape) if !shape.contains(&0) => {
                Fact::tensor(DType::String, x.iter().cloned().chain([Dim::Unknown]))
            }
            _ => Fact::tensor(DType::String, x.iter().cloned()),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        if !(1..=2).contains(&x.shape().len()) {
            return Err(wrong_rank(x.shape().len()));
        }
        let texts = x.as_strings()?;
        let patterns = match &self.rule {
            Rule::Characters => &[][..],
            Rule::Expression(token) => slice::from_ref(&**token),
            Rule::Separators(separators) => separators,
        };
        let mut finders = try_collected(patterns.iter().map(Search::finder))?;
        let mut pace = Pace::new();
        let mut tokens: Vec<Vec<&str>> = with_room(texts.len())?;
        for text in texts {
            go_on()?;
            tokens.push(self.tokens(text, &mut finders, &mut pace)?);
        }
        let Some(most) = tokens.iter().map(Vec::len).max() else {
            outputs[0].tensor(DType::String, x.shape())?;
            return Ok(());
        };
        let n_marks = if self.is_marked && most > 0 { 2 } else { 0 };
        let shape: Shape = x.shape().iter().copied().chain([most + n_marks]).collect();
        let y = outputs[0].tensor(DType::String, &shape)?.into_strings()?;
        for (y, tokens) in y.chunks_exact_mut((most + n_marks).max(1)).zip(tokens) {
            let (begin, end) =
                if self.is_marked { (Some("\u{2}"), Some("\u{3}")) } else { (None, None) };
            let row = begin.into_iter().chain(tokens).chain(end);
            let row = row.chain(std::iter::repeat(self.pad_value.as_str()));
            for (y, token) in y.iter_mut().zip(row) {
                *y = text_of(&[token])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::Case;

    fn strings(shape: &[usize], words: &[&str]) -> Tensor {
        Tensor::from_strings(shape, words.iter().map(|&w| w.into()).collect()).unwrap()
    }

    fn case(mark: i64, least: i64, token: Option<&str>, separators: &[&str]) -> Case {
        let case = Case::new("Tokenizer", 1)
            .domain("com.microsoft")
            .attr("mark", Attr::Int(mark))
            .attr("mincharnum", Attr::Int(least))
            .attr("pad_value", Attr::String("#".into()));
        let case = match token {
            Some(token) => case.attr("tokenexp", Attr::String(token.into())),
            None => case,
        };
        let separators = separators.iter().map(|&s| s.into()).collect();
        case.attr("separators", Attr::Strings(separators))
    }

    #[test]
    fn separators_cut_one_after_the_other() {
        let cases: [(&str, i64, &[&str], &[&str]); 10] = [
            ("a b", 1, &[" "], &["a", "b"]),
            ("  ", 1, &[" "], &[]),
            ("", 1, &[" "], &[]),
            ("éé-é", 2, &["-"], &["éé"]),
            ("abab", 1, &["b", "ab"], &["a", "a"]),
            ("xaby", 1, &["ab", "b"], &["x", "y"]),
            ("xab", 1, &["a*"], &[]),
            ("a b", 1, &[" ", ""], &[]),
            ("a1b22c", 1, &["[0-9]+"], &["a", "b", "c"]),
            ("éa", 1, &[""], &["é", "a"]),
        ];
        for (text, least, separators, tokens) in cases {
            let y = case(0, least, None, separators).tensor(&[strings(&[1], &[text])]);
            assert_eq!(y, Ok(strings(&[1, tokens.len()], tokens)), "{text:?} at {separators:?}");
        }
    }

    #[test]
    fn what_matches_is_a_token() {
        let cases: [(&str, i64, &str, &[&str]); 7] = [
            ("xaab aaa", 1, "a+", &["aa", "aaa"]),
            ("xaab aaa", 3, "a+", &["aaa"]),
            ("xaab aaa", 1, "a*", &["aa", "aaa"]),
            ("aaab ab", 1, r"\bab?", &["a", "ab"]),
            ("aa", 1, "^a", &["a"]),
            ("abab xab", 1, "a|abx?|x", &["ab", "ab", "x", "ab"]),
            ("a\né", 1, ".", &["a", "\n", "é"]),
        ];
        for (text, least, token, tokens) in cases {
            let y = case(0, least, Some(token), &["unused"]).tensor(&[strings(&[1], &[text])]);
            assert_eq!(y, Ok(strings(&[1, tokens.len()], tokens)), "{text:?} by {token:?}");
        }
    }

    #[test]
    fn rows_are_marked_and_padded() {
        let y = case(1, 1, None, &[" "]).tensor(&[strings(&[1, 3], &["a b", "c", ""])]);
        let rows =
            ["\u{2}", "a", "b", "\u{3}", "\u{2}", "c", "\u{3}", "#", "\u{2}", "\u{3}", "#", "#"];
        assert_eq!(y, Ok(strings(&[1, 3, 4], &rows)));
        let y = case(1, 1, None, &[" "]).tensor(&[strings(&[2], &["", " "])]);
        assert_eq!(y, Ok(strings(&[2, 0], &[])));
        for shape in [&[0][..], &[2, 0], &[0, 2]] {
            let x = strings(shape, &[]);
            assert_eq!(case(1, 1, None, &[" "]).tensor(std::slice::from_ref(&x)), Ok(x));
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        for case in [
            case(0, 0, None, &[" "]),
            case(0, 2, None, &[""]),
            case(0, 2, Some("."), &[]),
            case(0, 1, Some(""), &[]),
            case(0, 1, None, &[]),
            case(0, 1, None, &["("]),
        ] {
            assert!(case.tensor(&[strings(&[1], &["a"])]).is_err());
        }
        for shape in [&[][..], &[1, 1, 1]] {
            assert!(case(0, 1, None, &[" "]).tensor(&[strings(shape, &["a"])]).is_err());
        }
    }
}
