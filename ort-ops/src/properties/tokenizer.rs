//! Tokenizer: texts split into tokens.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::microsoft("Tokenizer", tokenizer)];

/// A pattern, and how many bytes of a text it matches at the beginning; not zero.
#[derive(Clone, Copy)]
struct Pattern {
    regex: &'static str,
    n_matched: fn(&str) -> usize,
}

const PATTERNS: [Pattern; 5] = [
    Pattern { regex: " ", n_matched: |text| usize::from(text.starts_with(' ')) },
    Pattern { regex: "ab", n_matched: |text| if text.starts_with("ab") { 2 } else { 0 } },
    Pattern { regex: "[ ,]+", n_matched: |text| n_of(text, |c| " ,".contains(c)) },
    Pattern { regex: "[abé]+", n_matched: |text| n_of(text, |c| "abé".contains(c)) },
    Pattern {
        regex: "a|é", n_matched: |text| n_of(&text[..n_first(text)], |c| "aé".contains(c))
    },
];

/// The bytes of the first character, if there is one.
fn n_first(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The bytes of the first characters that satisfy a predicate.
fn n_of(text: &str, holds: fn(char) -> bool) -> usize {
    text.chars().take_while(|&c| holds(c)).map(char::len_utf8).sum()
}

impl Pattern {
    /// The parts of a text that match, and those between them.
    fn cut(self, text: &str) -> (Vec<String>, Vec<String>) {
        let (mut matches, mut between) = (Vec::new(), vec![String::new()]);
        let mut rest = text;
        while !rest.is_empty() {
            let n = (self.n_matched)(rest);
            let (part, after) = rest.split_at(if n > 0 { n } else { n_first(rest) });
            if n > 0 {
                matches.push(part.to_owned());
                between.push(String::new());
            } else {
                between.last_mut().unwrap().push_str(part);
            }
            rest = after;
        }
        (matches, between)
    }
}

/// How tokens are found.
#[derive(Clone)]
enum Rule {
    Characters,
    Expression(Pattern),
    Separators(Vec<Pattern>),
}

impl Rule {
    fn draw(draw: &mut Draw) -> (Self, &'static str, Attr) {
        let text = |text: &str| Attr::String(text.to_owned());
        match draw.below(4) {
            0 => (Rule::Characters, "tokenexp", text(".")),
            1 => (Rule::Characters, "separators", Attr::Strings(vec![String::new()])),
            2 => {
                let pattern = draw.pick(&PATTERNS);
                (Rule::Expression(pattern), "tokenexp", text(pattern.regex))
            }
            _ => {
                let patterns: Vec<_> =
                    (0..1 + draw.below(2)).map(|_| draw.pick(&PATTERNS)).collect();
                let regexes = patterns.iter().map(|it| it.regex.to_owned()).collect();
                (Rule::Separators(patterns), "separators", Attr::Strings(regexes))
            }
        }
    }

    fn tokens(&self, text: &str, n_least: usize) -> Vec<String> {
        let mut tokens = match self {
            Rule::Characters => text.chars().map(String::from).collect(),
            Rule::Expression(pattern) => pattern.cut(text).0,
            Rule::Separators(patterns) => {
                patterns.iter().fold(vec![text.to_owned()], |parts, pattern| {
                    parts.iter().flat_map(|part| pattern.cut(part).1).collect()
                })
            }
        };
        tokens.retain(|token| token.chars().count() >= n_least);
        tokens
    }
}

fn tokenizer(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 1 + draw.below(2);
    let shape = draw.shape_of_rank(rank);
    let mut text =
        || (0..draw.below(9)).map(|_| draw.pick(&['a', 'b', 'é', 'c', ' ', ','])).collect();
    let x = match dtype {
        DType::String => Array::from_fn(&shape, |_| Cell::Text(text())).to_tensor(dtype),
        _ => draw.any(dtype, &shape),
    };
    let (rule, name, attr) = Rule::draw(draw);
    let n_least = if let Rule::Characters = rule { 1 } else { 1 + draw.below(3) };
    let (is_marked, pad) = (draw.one_in(2), draw.pick(&["", "pad"]));
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let tokens = |cell: &Cell| match cell {
            Cell::Text(text) => rule.tokens(text, n_least),
            _ => panic!("{cell:?} is no text"),
        };
        let Some(most) = x.cells.iter().map(|cell| tokens(cell).len()).max() else {
            return Expected::exact(dtype, x);
        };
        // Where there is no token there is nothing to mark.
        let is_marked = is_marked && most > 0;
        let width = most + if is_marked { 2 } else { 0 };
        let y = Array::from_fn(&[&x.shape[..], &[width]].concat(), |index| {
            let (&at, index) = index.split_last().unwrap();
            let mut tokens = tokens(x.at(index));
            if is_marked {
                tokens.insert(0, "\u{2}".to_owned());
                tokens.push("\u{3}".to_owned());
            }
            Cell::Text(tokens.get(at).map_or(pad, String::as_str).to_owned())
        });
        Expected::exact(dtype, y)
    });
    sample
        .attr(name, attr)
        .attr("mark", Attr::Int(is_marked.into()))
        .attr("mincharnum", Attr::Int(signed(n_least)))
        .attr("pad_value", Attr::String(pad.to_owned()))
}
