//! Operators on strings.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "StringConcat", versions: &[20], draw: concat },
    Property { domain: "", name: "StringSplit", versions: &[20], draw: split },
    Property { domain: "", name: "StringNormalizer", versions: &[10], draw: normalize },
    Property { domain: "", name: "RegexFullMatch", versions: &[20], draw: full_match },
];

/// Strings of at most six of these characters; any values for other types.
fn texts(draw: &mut Draw, dtype: DType, shape: &[usize], alphabet: &[char]) -> Tensor {
    if dtype != DType::String {
        return draw.any(dtype, shape);
    }
    let text = |_: &[usize]| Cell::Text((0..draw.below(7)).map(|_| draw.pick(alphabet)).collect());
    Array::from_fn(shape, text).to_tensor(dtype)
}

fn text(cell: &Cell) -> &str {
    match cell {
        Cell::Text(text) => text,
        _ => panic!("{cell:?} is no text"),
    }
}

fn concat(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, shape) = draw.broadcast(2);
    let mut operand = |shape| texts(draw, dtype, shape, &['a', 'b', 'é']);
    let (x, y) = (operand(&shapes[0]), operand(&shapes[1]));
    Sample::new(&[&x.clone(), &y.clone()], move || {
        let (x, y) = (Array::of(&x), Array::of(&y));
        let joined = Array::from_fn(&shape, |index| {
            let (x, y) = (text(x.at_broadcast(index)), text(y.at_broadcast(index)));
            Cell::Text(x.chars().chain(y.chars()).collect())
        });
        Expected::exact(dtype, joined)
    })
}

fn split(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = texts(draw, dtype, &shape, &['a', 'b', ' ', '\t', ',']);
    let delimiter = draw.pick(&[None, Some(""), Some(" "), Some(","), Some("ab")]);
    let most = draw.one_in(2).then(|| draw.below(4));
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let parts = |cell: &Cell| parts(text(cell), delimiter, most.unwrap_or(usize::MAX));
        let width = x.cells.iter().map(|cell| parts(cell).len()).max().unwrap_or(0);
        let y = Array::from_fn(&[&x.shape[..], &[width]].concat(), |index| {
            let (at, outer) = index.split_last().unwrap();
            Cell::Text(parts(x.at(outer)).get(*at).cloned().unwrap_or_default())
        });
        let counts = x.map(|cell| Cell::Int(signed(parts(cell).len()).into()));
        [Expected::exact(dtype, y), Expected::exact(DType::I64, counts)]
            .into_iter()
            .flatten()
            .collect()
    });
    let sample = delimiter.into_iter().fold(sample.outputs(2), |sample, delimiter| {
        sample.attr("delimiter", Attr::String(delimiter.into()))
    });
    let most = most.map(signed).into_iter();
    most.fold(sample, |sample, most| sample.attr("maxsplit", Attr::Int(most)))
}

/// The parts of a text, split at most `most` times.
fn parts(text: &str, delimiter: Option<&str>, most: usize) -> Vec<String> {
    let is_white = delimiter.is_none_or(str::is_empty);
    let mut rest = if is_white { text.trim() } else { text };
    let mut parts = Vec::new();
    while parts.len() < most
        && let Some((part, after)) = match delimiter {
            Some(delimiter) if !is_white => rest.split_once(delimiter),
            _ => rest.split_once(char::is_whitespace).map(|(part, rest)| (part, rest.trim_start())),
        }
    {
        parts.push(part.to_owned());
        rest = after;
    }
    if !(is_white && rest.is_empty()) {
        parts.push(rest.to_owned());
    }
    parts
}

fn normalize(draw: &mut Draw, dtype: DType) -> Sample {
    let n = draw.dim() * 2;
    let shape = if draw.one_in(2) { vec![n] } else { vec![1, n] };
    let x = texts(draw, dtype, &shape, &['a', 'A', 'É']);
    // Some of the words are stop words, possibly in another case.
    let words = Array::of(&texts(draw, DType::String, &[6], &['a', 'A', 'É', 'é'])).cells;
    let mut stop_words: Vec<_> = words.iter().map(|word| text(word).to_owned()).collect();
    if dtype == DType::String {
        let of_x = Array::of(&x).cells;
        stop_words
            .extend(of_x.iter().take(1 + draw.below(2)).map(|word| text(word).to_lowercase()));
    }
    let stop_words = if draw.one_in(3) { None } else { Some(stop_words) };
    let (is_sensitive, case) = (draw.one_in(2), draw.pick(&["NONE", "LOWER", "UPPER"]));
    let stops = stop_words.clone().unwrap_or_default();
    let sample = Sample::new(&[&x.clone()], move || {
        let folded = |word: &str| if is_sensitive { word.to_owned() } else { word.to_lowercase() };
        let is_kept = |word: &&str| stops.iter().all(|stop| folded(stop) != folded(word));
        let cased = |word: &str| match case {
            "LOWER" => word.to_lowercase(),
            "UPPER" => word.to_uppercase(),
            _ => word.to_owned(),
        };
        let cells = Array::of(&x).cells;
        let mut kept: Vec<_> =
            cells.iter().map(text).filter(is_kept).map(|word| Cell::Text(cased(word))).collect();
        if kept.is_empty() {
            kept.push(Cell::Text(String::new()));
        }
        let mut shape = shape.clone();
        *shape.last_mut().unwrap() = kept.len();
        Expected::exact(dtype, Array { shape, cells: kept })
    });
    let sample = match stop_words {
        Some(words) => sample.attr("stopwords", Attr::Strings(words)),
        None => sample,
    };
    let is_default = case == "NONE" && !is_sensitive && draw.one_in(2);
    let name = "case_change_action";
    if is_default {
        return sample;
    }
    let sample = sample.attr("is_case_sensitive", Attr::Int(is_sensitive.into()));
    sample.attr(name, Attr::String(case.into())).attr("locale", Attr::String("en_US".into()))
}

/// A pattern, and an equivalent predicate.
type Pattern = (&'static str, fn(&str) -> bool);

const PATTERNS: [Pattern; 7] = [
    ("", str::is_empty),
    ("a*", |text| text.chars().all(|c| c == 'a')),
    ("[^b]*b", |text| text.find('b').is_some_and(|at| at + 1 == text.len())),
    ("a|ab|b.*", |text| text == "a" || text == "ab" || text.starts_with('b')),
    (".{2,3}", |text| (2..=3).contains(&text.chars().count())),
    (r"\w+", |text| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())),
    (r"(?:..)+", |text| !text.is_empty() && text.chars().count() % 2 == 0),
];

fn full_match(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = texts(draw, dtype, &shape, &['a', 'b', 'é']);
    let (pattern, matches) = draw.pick(&PATTERNS);
    let sample = Sample::new(&[&x.clone()], move || {
        Expected::exact(DType::Bool, Array::of(&x).map(|cell| Cell::Bool(matches(text(cell)))))
    });
    sample.attr("pattern", Attr::String(pattern.into()))
}
