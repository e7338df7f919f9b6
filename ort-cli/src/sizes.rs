//! Sizes for free dimensions, with which the model's nodes accept the inputs.
//!
//! Tries 1 for each first, then the same size for all but batches, then each dimension separately.
//! A symbol that is a sum, such as `past_length + 1`, follows from its terms.

use std::collections::HashMap;

use ort_session::Dim;

/// The sizes to try: small ones, and usual ones of images and texts.
const SIZES: [usize; 14] = [1, 2, 3, 4, 8, 16, 32, 64, 128, 224, 256, 320, 512, 640];

/// The sizes of the other dimensions while one is varied.
const OTHERS: [usize; 2] = [1, 64];

/// The maximum number of tries: each infers the shapes of all nodes.
const MAX_TRIES: usize = 128;

/// The free dimensions of random inputs.
#[derive(Debug)]
pub(crate) struct FreeSizes<'a> {
    inputs: &'a [Vec<Dim>],
    /// The symbols whose sizes are known.
    known: &'a HashMap<String, usize>,
    free: Vec<Free<'a>>,
}

/// One size to find.
#[derive(Debug)]
struct Free<'a> {
    key: Key<'a>,
    /// Whether it is a batch size, which probably may be 1.
    is_batch: bool,
}

/// A symbol, or the input and axis of a dimension without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key<'a> {
    Symbol(&'a str),
    Unnamed(usize, usize),
}

impl<'a> FreeSizes<'a> {
    /// Those of inputs with these dimensions.
    pub(crate) fn new(inputs: &'a [Vec<Dim>], known: &'a HashMap<String, usize>) -> Self {
        let mut this = Self { inputs, known, free: Vec::new() };
        for (i, dims) in inputs.iter().enumerate() {
            for (axis, dim) in dims.iter().enumerate() {
                let key = match dim {
                    Dim::Known(_) => continue,
                    Dim::Symbol(symbol) if known.contains_key(&**symbol) => continue,
                    Dim::Symbol(symbol) if this.terms(symbol).is_some() => continue,
                    Dim::Symbol(symbol) => Key::Symbol(symbol),
                    Dim::Unknown => Key::Unnamed(i, axis),
                };
                let is_first = axis == 0 && dims.len() > 1;
                match this.free.iter_mut().find(|free| free.key == key) {
                    Some(free) => free.is_batch |= is_first,
                    None => this.free.push(Free { key, is_batch: is_first || key.is_batch() }),
                }
            }
        }
        this
    }

    /// The first of the tried shapes that fit; if none does, the error for sizes of 1.
    ///
    /// Without a free dimension nothing is tried.
    pub(crate) fn find<E>(
        &self,
        mut fits: impl FnMut(&[Vec<usize>]) -> Result<(), E>,
    ) -> Result<Vec<Vec<usize>>, E> {
        let ones = self.shapes(&vec![1; self.free.len()]);
        if self.free.is_empty() {
            return Ok(ones);
        }
        let Err(error) = fits(&ones) else { return Ok(ones) };
        let mut others = self.candidates().skip(1).take(MAX_TRIES).map(|sizes| self.shapes(&sizes));
        others.find(|shapes| fits(shapes).is_ok()).ok_or(error)
    }

    /// The candidates; sizes of 1 first.
    fn candidates(&self) -> impl Iterator<Item = Vec<usize>> {
        let all = |size: usize| {
            let sizes = self.free.iter().map(move |free| if free.is_batch { 1 } else { size });
            sizes.collect::<Vec<_>>()
        };
        let single = OTHERS.into_iter().flat_map(move |others| {
            let base = all(others);
            (0..self.free.len()).flat_map(move |i| {
                let base = base.clone();
                SIZES.into_iter().map(move |size| {
                    let mut sizes = base.clone();
                    sizes[i] = size;
                    sizes
                })
            })
        });
        SIZES.into_iter().map(all).chain(single)
    }

    /// The shapes of all inputs with these sizes of free dimensions.
    fn shapes(&self, sizes: &[usize]) -> Vec<Vec<usize>> {
        let free = |key: Key<'_>| {
            let place = self.free.iter().position(|free| free.key == key);
            place.map_or(1, |place| sizes[place])
        };
        let symbol =
            |name: &str| self.known.get(name).copied().unwrap_or_else(|| free(Key::Symbol(name)));
        let size = |input: usize, axis: usize, dim: &Dim| match dim {
            Dim::Known(n) => *n,
            Dim::Unknown => free(Key::Unnamed(input, axis)),
            Dim::Symbol(name) if self.known.contains_key(&**name) => symbol(name),
            Dim::Symbol(name) => match self.terms(name) {
                Some(terms) => {
                    let terms =
                        terms.into_iter().map(|it| it.parse().unwrap_or_else(|_| symbol(it)));
                    terms.fold(0, usize::saturating_add)
                }
                None => symbol(name),
            },
        };
        let shape = |(i, dims): (usize, &Vec<Dim>)| {
            dims.iter().enumerate().map(|(axis, dim)| size(i, axis, dim)).collect()
        };
        self.inputs.iter().enumerate().map(shape).collect()
    }

    /// The terms of a symbol that is a sum of numbers and of other symbols of the inputs.
    fn terms<'s>(&self, symbol: &'s str) -> Option<Vec<&'s str>> {
        let terms: Vec<&str> = symbol.split('+').map(str::trim).collect();
        let is_symbol = |term: &str| {
            let mut dims = self.inputs.iter().flatten();
            self.known.contains_key(term)
                || dims.any(|dim| matches!(dim, Dim::Symbol(symbol) if &**symbol == term))
        };
        let is_sum = terms.len() > 1
            && terms.iter().all(|term| term.parse::<usize>().is_ok() || is_symbol(term));
        is_sum.then_some(terms)
    }
}

impl Key<'_> {
    fn is_batch(self) -> bool {
        matches!(self, Key::Symbol(name) if name.to_ascii_lowercase().contains("batch"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(text: &str) -> Vec<Dim> {
        let dim = |dim: &str| match (dim, dim.parse()) {
            ("?", _) => Dim::Unknown,
            (_, Ok(n)) => Dim::Known(n),
            (symbol, Err(_)) => Dim::Symbol(symbol.into()),
        };
        text.split(',').map(dim).collect()
    }

    /// The shapes found for inputs of these dimensions, and the number of tries.
    fn found(
        inputs: &[&str],
        fits: impl Fn(&[Vec<usize>]) -> bool,
    ) -> (Option<Vec<Vec<usize>>>, usize) {
        let inputs: Vec<_> = inputs.iter().map(|text| dims(text)).collect();
        let known = HashMap::from([("known".to_owned(), 7)]);
        let mut n_tries = 0;
        let shapes = FreeSizes::new(&inputs, &known).find(|shapes| {
            n_tries += 1;
            if fits(shapes) { Ok(()) } else { Err(()) }
        });
        (shapes.ok(), n_tries)
    }

    #[test]
    fn ones_are_tried_first_and_nothing_without_free_dimensions() {
        assert_eq!(found(&["n,3,?", "known"], |_| true), (Some(vec![vec![1, 3, 1], vec![7]]), 1));
        assert_eq!(found(&["2,3", "known"], |_| false), (Some(vec![vec![2, 3], vec![7]]), 0));
    }

    #[test]
    fn images_grow_and_batches_do_not() {
        let fits = |shapes: &[Vec<usize>]| shapes[0][2] >= 20 && shapes[0][3].is_multiple_of(32);
        for input in ["?,3,?,?", "n,3,h,w", "batch,3,h,w"] {
            assert_eq!(found(&[input], fits).0, Some(vec![vec![1, 3, 32, 32]]), "{input}");
        }
    }

    #[test]
    fn one_dimension_may_have_to_differ_from_the_others() {
        let three = |shapes: &[Vec<usize>]| shapes[0] == [3, 1] && shapes[1] == [1];
        assert_eq!(found(&["n,a", "b"], three).0, Some(vec![vec![3, 1], vec![1]]));
        let wide = |shapes: &[Vec<usize>]| shapes[0] == [64, 2];
        assert_eq!(found(&["a,b"], wide).0, None, "the first is a batch");
        let wide = |shapes: &[Vec<usize>]| shapes[0] == [1, 64, 2];
        assert_eq!(found(&["n,a,b"], wide).0, Some(vec![vec![1, 64, 2]]));
    }

    #[test]
    fn a_sum_follows_from_its_terms() {
        let fits = |shapes: &[Vec<usize>]| shapes[0][1] == 4;
        let inputs = ["batch,past + 1", "batch,past", "past+known"];
        assert_eq!(found(&inputs, fits).0, Some(vec![vec![1, 4], vec![1, 3], vec![10]]));
        // The largest size.
        let huge = format!("past + {}", usize::MAX);
        assert_eq!(found(&["batch,past", &huge], |_| true).0.unwrap()[1], [usize::MAX]);
        // Terms that are not symbols of the inputs: an ordinary name.
        assert_eq!(found(&["a+b"], |_| true).0, Some(vec![vec![1]]));
    }

    #[test]
    fn the_search_ends() {
        let names: Vec<String> = (0..100).map(|i| format!("d{i}")).collect();
        let (shapes, n_tries) = found(&[&names.join(",")], |_| false);
        assert_eq!((shapes, n_tries), (None, MAX_TRIES + 1));
    }
}
