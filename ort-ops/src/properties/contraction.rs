//! Sums over indices that an equation names.

use ort_graph::Attr;
use ort_tensor::DType;

use super::array::indices;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::onnx("Einsum", &[12, 28], einsum)];

/// Indices by name; those of the ellipsis are digits, counted from the last.
type Indices = Vec<(char, usize)>;

/// An operand: its term as written, the names of its dimensions, and their sizes.
struct Operand {
    term: String,
    names: Vec<char>,
    shape: Vec<usize>,
}

fn einsum(draw: &mut Draw, dtype: DType) -> Sample {
    let letters: Indices = ['a', 'K', 'b'].map(|letter| (letter, draw.dim())).to_vec();
    let rank = draw.below(3);
    let ellipsis = draw.shape_of_rank(rank);
    let operands: Vec<_> =
        (0..1 + draw.below(3)).map(|_| operand(draw, &letters, &ellipsis)).collect();
    let tensors: Vec<_> = operands.iter().map(|it| draw.factors(dtype, &it.shape)).collect();
    let (output, names) = output(draw, &operands);
    let terms: Vec<_> = operands.iter().map(|operand| &operand.term[..]).collect();
    let space = draw.pick(&["", " "]);
    let terms = terms.join(&format!("{space},{space}"));
    let equation = output.map_or(terms.clone(), |output| format!("{terms}{space}->{output}"));
    let arrays: Vec<_> = tensors.iter().map(Array::of).collect();
    Sample::new(&tensors.iter().collect::<Vec<_>>(), move || {
        let mut sizes = Indices::new();
        for (&name, &n) in operands.iter().flat_map(|it| it.names.iter().zip(&it.shape)) {
            match sizes.iter_mut().find(|(other, _)| *other == name) {
                Some((_, size)) => *size = if *size == 1 { n } else { *size },
                None => sizes.push((name, n)),
            }
        }
        let size = |name: &char| sizes.iter().find(|it| it.0 == *name).unwrap().1;
        let shape: Vec<_> = names.iter().map(size).collect();
        let summed: Vec<_> =
            sizes.iter().map(|it| it.0).filter(|name| !names.contains(name)).collect();
        let all: Vec<_> = names.iter().chain(&summed).copied().collect();
        let range: Vec<_> = summed.iter().map(size).collect();
        let places = indices(&range);
        let y = Array::from_fn(&shape, |index| {
            let terms = places.iter().map(|rest| {
                let at = [index, rest].concat();
                let factor = |(operand, x): (&Operand, &Array)| {
                    let own = |(name, &n): (&char, &usize)| {
                        let axis = all.iter().position(|other| other == name).unwrap();
                        if n == 1 { 0 } else { at[axis] }
                    };
                    x.at(&operand.names.iter().zip(&x.shape).map(own).collect::<Vec<_>>()).clone()
                };
                operands.iter().zip(&arrays).map(factor).collect::<Vec<_>>()
            });
            Cell::sum_of_products(dtype, terms)
        });
        Expected::exact(dtype, y)
    })
    .attr("equation", Attr::String(equation))
}

/// Up to three letters, possibly one of them twice, and an ellipsis somewhere.
fn operand(draw: &mut Draw, letters: &Indices, ellipsis: &[usize]) -> Operand {
    let n = draw.below(4);
    let has_ellipsis = draw.one_in(2);
    let place = draw.below(n + 1);
    let mut operand = Operand { term: String::new(), names: vec![], shape: vec![] };
    for i in 0..=n {
        if i == place && has_ellipsis {
            operand.term.push_str("...");
            let own = draw.operand(ellipsis);
            operand.names.extend(['1', '0'].iter().skip(2 - own.len()));
            operand.shape.extend(own);
        }
        if i < n {
            let (letter, dim) = draw.pick(letters);
            operand.term.push(letter);
            operand.names.push(letter);
            operand.shape.push(dim);
        }
    }
    operand
}

/// The term of the result, if it is written, and the names of its dimensions.
fn output(draw: &mut Draw, operands: &[Operand]) -> (Option<String>, Vec<char>) {
    let mut used: Vec<_> = operands.iter().flat_map(|it| it.names.iter().copied()).collect();
    used.sort_unstable();
    let count = |name: char| used.iter().filter(|&&other| other == name).count();
    let has_ellipsis = operands.iter().any(|operand| operand.term.contains('.'));
    let dots: Vec<_> = ['1', '0'].into_iter().filter(|&digit| count(digit) > 0).collect();
    let letters = |keep: &dyn Fn(char) -> bool| {
        let mut letters: Vec<_> = used.iter().copied().filter(|&c| !c.is_ascii_digit()).collect();
        letters.dedup();
        letters.retain(|&letter| keep(letter));
        letters
    };
    if draw.one_in(2) {
        return (None, [dots, letters(&|letter| count(letter) == 1)].concat());
    }
    let all = letters(&|_| true);
    let kept: Vec<_> = draw.axes(all.len()).into_iter().map(|i| all[i]).collect();
    let place = draw.below(kept.len() + 1);
    let (before, after) = kept.split_at(place);
    let text = |letters: &[char]| letters.iter().collect::<String>();
    let ellipsis = if has_ellipsis { "..." } else { "" };
    let term = format!("{}{ellipsis}{}", text(before), text(after));
    (Some(term), [before, &dots, after].concat())
}
