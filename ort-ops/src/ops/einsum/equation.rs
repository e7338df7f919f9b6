//! The equation of an Einsum: which dimension of which operand is which index.

// collects are bounded: by the rank and the letters of the equation

/// An equation such as `bij,bjk->bik`: a term for each operand, and one for the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// The terms of the operands.
    pub inputs: Vec<Vec<Symbol>>,
    /// The term of the result; if the equation has none, the ellipsis and the letters that occur once.
    pub output: Vec<Symbol>,
}

/// A part of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Symbol {
    /// The dimensions not covered by letters.
    Ellipsis,
    /// The index of one dimension: an ASCII letter.
    Letter(u8),
}

/// One index: a letter, or a dimension of the ellipsis counted from its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Ellipsis(usize),
    Letter(u8),
}

impl Equation {
    /// Parses an equation; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.replace(' ', "");
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(parse_term(output)?)),
            None => (&text[..], None),
        };
        let inputs: Vec<_> = inputs.split(',').map(parse_term).collect::<Option<_>>()?;
        let output = output.unwrap_or_else(|| implicit_output(&inputs));
        let is_known = |symbol: &Symbol| {
            *symbol == Symbol::Ellipsis || inputs.iter().any(|term| term.contains(symbol))
        };
        let is_single = |(i, symbol): (usize, &Symbol)| !output[..i].contains(symbol);
        let is_sound = output.iter().all(is_known) && output.iter().enumerate().all(is_single);
        is_sound.then_some(Self { inputs, output })
    }

    /// The indices of an operand's dimensions; `None` if its rank does not fit the term.
    pub(super) fn labels(term: &[Symbol], rank: usize) -> Option<Vec<Label>> {
        let n_letters = term.iter().filter(|&&symbol| symbol != Symbol::Ellipsis).count();
        let n_ellipsis = rank.checked_sub(n_letters)?;
        if n_ellipsis > 0 && n_letters == term.len() {
            return None;
        }
        Some(expand(term, n_ellipsis))
    }

    /// The indices of the result, given those of all operands.
    pub(super) fn output_labels(&self, inputs: &[Vec<Label>]) -> Vec<Label> {
        let from_last = inputs.iter().flatten().map(|label| match label {
            Label::Ellipsis(i) => i + 1,
            Label::Letter(_) => 0,
        });
        expand(&self.output, from_last.max().unwrap_or(0))
    }
}

fn expand(term: &[Symbol], n_ellipsis: usize) -> Vec<Label> {
    // bounded: as long as an attribute
    let mut labels = Vec::with_capacity(term.len() + n_ellipsis);
    for symbol in term {
        match symbol {
            Symbol::Ellipsis => labels.extend((0..n_ellipsis).rev().map(Label::Ellipsis)),
            Symbol::Letter(letter) => labels.push(Label::Letter(*letter)),
        }
    }
    labels
}

fn parse_term(text: &str) -> Option<Vec<Symbol>> {
    // bounded: as long as an attribute
    let mut term = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"...") {
            if term.contains(&Symbol::Ellipsis) {
                return None;
            }
            term.push(Symbol::Ellipsis);
            rest = tail;
        } else if first.is_ascii_alphabetic() {
            term.push(Symbol::Letter(first));
            rest = tail;
        } else {
            return None;
        }
    }
    Some(term)
}

/// The ellipsis, if there is one, and the letters that occur once, in ASCII order.
fn implicit_output(inputs: &[Vec<Symbol>]) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = inputs.iter().flatten().copied().collect();
    symbols.sort_unstable();
    let count = |symbol: Symbol| symbols.iter().filter(|&&other| other == symbol).count();
    let mut output: Vec<Symbol> = symbols
        .iter()
        .copied()
        .filter(|&symbol| symbol == Symbol::Ellipsis || count(symbol) == 1)
        .collect();
    output.dedup();
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(term: &[Symbol]) -> String {
        let symbol = |symbol: &Symbol| match symbol {
            Symbol::Ellipsis => ".".to_owned(),
            Symbol::Letter(letter) => char::from(*letter).to_string(),
        };
        term.iter().map(symbol).collect()
    }

    #[test]
    fn the_result_follows_from_the_operands_if_it_is_not_given() {
        let cases = [
            ("ij, jk -> ik", Some("ik")),
            ("bij,bjk", Some("ik")),
            ("zA", Some("Az")),
            ("ii", Some("")),
            ("...ij->...ji", Some(".ji")),
            ("i...,...j", Some(".ij")),
            ("->", Some("")),
            ("ij->ik", None),
            ("ij->ii", None),
            ("i......", None),
            ("i.j", None),
            ("i1", None),
        ];
        for (text, output) in cases {
            let parsed = Equation::parse(text).map(|equation| print(&equation.output));
            assert_eq!(parsed.as_deref(), output, "{text}");
        }
    }
}
