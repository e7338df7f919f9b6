//! Filters converted to NCHWc in one pass: every weight is read once and written once.

// collects are bounded: by PIECE and the lanes of a block

use ort_graph::OpError;
use ort_tensor::{DType, Shape, TensorView, n_elements};

/// An f32 at any alignment: it is moved, and never computed with.
type Weight = [u8; size_of::<f32>()];

/// The most weights of a filter that are read before the next filter's: those of a block of filters stay in the L1
/// cache with their destinations.
const PIECE: usize = 128;

/// The positions of channels, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The position of each channel.
    pub of_channels: &'a [usize],
    /// How many positions there are.
    pub n: usize,
}

/// Weight `x` of every lane of a tile: without a loop, as this crate may be optimized for size.
macro_rules! lanes {
    ($tile:ident, $x:ident; $($lane:literal)*) => {
        [$(f32::from_le_bytes($tile[$lane][$x])),*]
    };
}

/// Filters `[O, I, …]` to be written in a [`FilterForm`](super::FilterForm). Positions without a channel keep zeros.
///
/// ```text
/// strip of outputs  ⌊o/B⌋:   [⌊i/Bi⌋][tap][i mod Bi][o mod B]     Bi is B or, with inputs in NCHW, 1
/// ```
#[derive(Clone, Debug)]
pub struct PlacedFilter<'a> {
    weights: &'a [Weight],
    outputs: &'a [usize],
    inputs: InputPlaces<'a>,
    shape: Shape,
    taps: usize,
    block: usize,
    strip_len: usize,
}

#[derive(Clone, Debug)]
enum InputPlaces<'a> {
    /// The weights of a filter in their original order.
    InOrder,
    /// In blocks of inputs.
    Blocks(&'a [usize]),
}

impl<'a> PlacedFilter<'a> {
    /// `w`: `[O, I, …]` f32, row-major, at any alignment ([`Tensor::unaligned_view`](ort_tensor::Tensor::unaligned_view));
    /// `outputs` and `inputs` have a position for each channel.
    ///
    /// # Errors
    /// If `w` has another type or shape, or the positions do not fill whole blocks.
    pub fn new(
        w: TensorView<'a>,
        outputs: Places<'a>,
        inputs: Option<Places<'a>>,
        block: usize,
    ) -> Result<Self, OpError> {
        let shape = w.shape();
        let weights = match (w.dtype(), w.as_bytes()) {
            (DType::F32, Some(bytes)) => bytes.as_chunks().0,
            // An error: the elements have another type or were released.
            _ => w.as_slice::<f32>().map(|_| &[][..])?,
        };
        let [o, i, taps @ ..] = shape else { return Err(super::wrong_rank(w)) };
        let mut placed = Shape::from_slice(shape);
        placed[0] = whole(outputs, *o, block)?;
        let n_taps = n_elements(taps).ok_or(OpError::TooLarge)?;
        if let Some(inputs) = inputs {
            placed[1] = whole(inputs, *i, block)?;
        }
        // One tap in blocks of inputs is one tap in order, unless there is padding.
        let inputs = match inputs {
            Some(places) if n_taps != 1 || places.n != *i => {
                InputPlaces::Blocks(places.of_channels)
            }
            _ => InputPlaces::InOrder,
        };
        n_elements(&placed).ok_or(OpError::TooLarge)?;
        let strip_len = n_elements(&[block, placed[1], n_taps]).ok_or(OpError::TooLarge)?;
        let (outputs, taps) = (outputs.of_channels, n_taps);
        Ok(Self { weights, outputs, inputs, shape: placed, taps, block, strip_len })
    }

    /// The shape with all positions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements of a block of outputs: at least 1.
    pub fn strip_len(&self) -> usize {
        self.strip_len.max(1)
    }

    /// Writes the weights of blocks of outputs, from block `first` on, to `to`, which contains zeros for whole
    /// strips.
    pub fn fill(&self, first: usize, to: &mut [f32]) {
        let strip_len = self.strip_len();
        if to.is_empty() || self.weights.is_empty() {
            return;
        }
        let row_len = self.weights.len() / self.outputs.len();
        for (strip, to) in (first..).zip(to.chunks_exact_mut(strip_len)) {
            let at = |place| self.outputs.partition_point(|&output| output < place);
            let (start, end) = (at(strip * self.block), at((strip + 1) * self.block));
            let rows = self.weights[start * row_len..end * row_len].chunks_exact(row_len);
            let lanes = self.outputs[start..end].iter().map(|output| output % self.block);
            let rows: Vec<(usize, &[Weight])> = lanes.zip(rows).collect();
            match self.inputs {
                InputPlaces::InOrder => self.in_order(&rows, to),
                InputPlaces::Blocks(places) => self.in_blocks(&rows, places, to),
            }
        }
    }

    fn in_order(&self, rows: &[(usize, &[Weight])], to: &mut [f32]) {
        let places: Vec<usize> = (0..PIECE).collect();
        for (piece, to) in to.chunks_mut(PIECE * self.block).enumerate() {
            let places = &places[..to.len() / self.block];
            self.interleave(rows, piece * PIECE, places, to);
        }
    }

    fn in_blocks(&self, rows: &[(usize, &[Weight])], inputs: &[usize], to: &mut [f32]) {
        let Self { taps, block, .. } = *self;
        let (mut start, mut places) = (0, Vec::new());
        for inputs in inputs.chunk_by(|a, b| a / block == b / block) {
            let to = &mut to[inputs[0] / block * taps * block * block..][..taps * block * block];
            let place = |&input: &usize| (0..taps).map(move |tap| tap * block + input % block);
            let mut all = inputs.iter().flat_map(place);
            loop {
                places.clear();
                places.extend(all.by_ref().take(PIECE));
                if places.is_empty() {
                    break;
                }
                self.interleave(rows, start, &places, to);
                start += places.len();
            }
        }
    }

    /// Writes weight `start + x` of every row to `places[x]`, in the row's lane.
    fn interleave(
        &self,
        rows: &[(usize, &[Weight])],
        start: usize,
        places: &[usize],
        to: &mut [f32],
    ) {
        let is_full = rows.len() == self.block;
        let n_done = match self.block {
            8 if is_full => {
                transpose(rows, start, places, to, |tile, x| lanes!(tile, x; 0 1 2 3 4 5 6 7))
            }
            16 if is_full => transpose(
                rows,
                start,
                places,
                to,
                |tile, x| lanes!(tile, x; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            ),
            _ => 0,
        };
        for &(lane, row) in rows {
            for (&place, &weight) in places.iter().zip(&row[start..]).skip(n_done) {
                to[place * self.block + lane] = f32::from_le_bytes(weight);
            }
        }
    }
}

/// The same where every lane has a row, in tiles of `B·B`, of which `lanes` takes the weights at a place; returns how many
/// weights of a row that were.
fn transpose<const B: usize>(
    rows: &[(usize, &[Weight])],
    start: usize,
    places: &[usize],
    to: &mut [f32],
    lanes: impl Fn(&[&[Weight; B]; B], usize) -> [f32; B],
) -> usize {
    let (tiles, _) = places.as_chunks::<B>();
    let (to, _) = to.as_chunks_mut::<B>();
    for (at, places) in tiles.iter().enumerate() {
        let mut tile = [const { &[[0; size_of::<Weight>()]; B] }; B];
        for (weights, (_, row)) in tile.iter_mut().zip(rows) {
            *weights = row[start + at * B..][..B].first_chunk().unwrap_or(*weights);
        }
        for (x, &place) in places.iter().enumerate() {
            to[place] = lanes(&tile, x);
        }
    }
    tiles.len() * B
}

/// How many positions there are, if they fit the channels and fill whole blocks.
fn whole(places: Places<'_>, n_channels: usize, block: usize) -> Result<usize, OpError> {
    let Places { of_channels, n } = places;
    let fits = of_channels.is_sorted_by(|a, b| a < b) && of_channels.last().is_none_or(|&p| p < n);
    if block == 0 || !n.is_multiple_of(block) || of_channels.len() != n_channels || !fits {
        let (left, right) = (vec![n_channels, n], vec![of_channels.len(), block]);
        return Err(OpError::Shapes { what: "channels and their places", left, right });
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ort_tensor::Tensor;

    /// The destination of weight (o, i, k), as documented by the module.
    fn expected(
        w: &[f32],
        [i, taps]: [usize; 2],
        (outputs, inputs): (&[usize], Option<&[usize]>),
        (n_places, block): (usize, usize),
        len: usize,
    ) -> Vec<f32> {
        let mut to = vec![0.0; len];
        for (at, &weight) in w.iter().enumerate() {
            let (o, input, k) = (outputs[at / (i * taps)], at / taps % i, at % taps);
            let (q, inner) = inputs.map_or((input, 1), |places| (places[input], block));
            let strip = o / block * block * n_places * taps;
            to[strip + ((q / inner * taps + k) * inner + q % inner) * block + o % block] = weight;
        }
        to
    }

    #[test]
    fn every_weight_finds_its_place_and_padding_is_zero() {
        let gap: Vec<usize> = (0..3).chain(4..30).collect();
        let all: Vec<usize> = (0..300).collect();
        for block in [4, 8, 16] {
            for (outputs, n_outputs) in [(&all[..32], 32), (&all[..5], 16), (&gap[..], 32)] {
                for (inputs, n_inputs, taps) in [
                    (None, 8, 1),
                    (None, 300, 1),
                    (None, 3, 9),
                    (Some(&all[..16]), 16, 1),
                    (Some(&all[..48]), 48, 9),
                    (Some(&gap[..]), 32, 1),
                    (Some(&gap[..]), 32, 2),
                    (Some(&gap[..]), 32, 0),
                ] {
                    let i = inputs.map_or(n_inputs, <[usize]>::len);
                    let w: Vec<f32> = (1..=outputs.len() * i * taps).map(|x| x as f32).collect();
                    let tensor = Tensor::from_slice(&[outputs.len(), i, taps], &w).unwrap();
                    let places = |of_channels, n| Places { of_channels, n };
                    let input_places = inputs.map(|inputs| places(inputs, n_inputs));
                    let outs = places(outputs, n_outputs);
                    let placed =
                        PlacedFilter::new(tensor.view(), outs, input_places, block).unwrap();
                    assert_eq!(placed.shape(), [n_outputs, n_inputs, taps]);
                    let mut to = vec![0.0; n_outputs * n_inputs * taps];
                    for (strip, to) in to.chunks_mut(placed.strip_len()).enumerate() {
                        placed.fill(strip, to);
                    }
                    let want =
                        expected(&w, [i, taps], (outputs, inputs), (n_inputs, block), to.len());
                    assert_eq!(to, want, "{block} {outputs:?} {inputs:?} {taps}");
                }
            }
        }
    }

    #[test]
    fn filters_of_which_there_are_none_may_be_of_any_size() {
        for inputs in [0, 1, 1 << 56] {
            let w = Tensor::from_slice::<f32>(&[0, inputs, 3], &[]).unwrap();
            let places = Places { of_channels: &[], n: 0 };
            let placed = PlacedFilter::new(w.view(), places, None, 16).unwrap();
            assert_eq!(placed.strip_len(), (16 * inputs * 3).max(1));
        }
    }

    #[test]
    fn partial_or_unordered_blocks_are_rejected() {
        let w = Tensor::from_slice(&[2, 1], &[1_f32, 2.0]).unwrap();
        for (of_channels, n) in
            [(&[0, 1][..], 3), (&[1, 0], 4), (&[0, 4], 4), (&[0], 4), (&[0, 0], 4)]
        {
            let places = Places { of_channels, n };
            assert!(PlacedFilter::new(w.view(), places, None, 4).is_err(), "{of_channels:?} {n}");
        }
    }
}
