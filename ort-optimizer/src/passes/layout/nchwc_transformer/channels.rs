//! The layout of a value's channels in NCHWc.

/// Channels in NCHWc, as consecutive segments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Channels(Vec<Segment>);

/// Channels in whole blocks: those of the image, and then padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    /// How many channels of the image there are.
    pub(super) n: usize,
    /// How many there are with the padding.
    pub(super) padded: usize,
    /// The value of every element of the padding; `None` if they are finite, but unknown or different.
    pub(super) number: Option<f32>,
}

impl Channels {
    /// `n` channels, padded with zeros to whole blocks.
    pub(super) fn padded(n: usize, block: usize) -> Self {
        Self(vec![Segment { n, padded: n.next_multiple_of(block), number: Some(0.0) }])
    }

    /// The concatenation. Segments without padding are merged with the next.
    pub(super) fn concat<'a>(parts: impl IntoIterator<Item = &'a Channels>) -> Self {
        let mut all: Vec<Segment> = Vec::new();
        for segment in parts.into_iter().flat_map(|part| &part.0) {
            match all.last_mut() {
                Some(last) if last.n == last.padded => {
                    last.n += segment.n;
                    last.padded += segment.padded;
                    last.number = segment.number;
                }
                _ => all.push(*segment),
            }
        }
        Self(all)
    }

    /// The same layout with this in the padding of each segment.
    ///
    /// # Errors
    /// The first that `number` returns.
    pub(super) fn filled<E>(
        &self,
        mut number: impl FnMut(usize) -> Result<Option<f32>, E>,
    ) -> Result<Self, E> {
        let filled = self.0.iter().enumerate().map(|(at, segment)| {
            let is_padded = segment.n < segment.padded;
            let number = if is_padded { number(at)? } else { Some(0.0) };
            Ok(Segment { number, ..*segment })
        });
        filled.collect::<Result<_, E>>().map(Self)
    }

    /// The same layout with zeros in the padding.
    pub(super) fn zeroed(&self) -> Self {
        Self(self.0.iter().map(|segment| Segment { number: Some(0.0), ..*segment }).collect())
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// How many channels the image has.
    pub(super) fn n(&self) -> usize {
        self.0.iter().map(|segment| segment.n).sum()
    }

    /// How many channels there are with the padding.
    pub(super) fn n_padded(&self) -> usize {
        self.0.iter().map(|segment| segment.padded).sum()
    }

    /// Whether there is no padding.
    pub(super) fn is_whole(&self) -> bool {
        self.n() == self.n_padded()
    }

    /// Whether all padding is after the last channel.
    pub(super) fn is_trailing(&self) -> bool {
        self.0.len() == 1
    }

    /// Whether all channels have the same positions.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let places = |channels: &Self| -> Vec<(usize, usize)> {
            channels.0.iter().map(|segment| (segment.n, segment.padded)).collect()
        };
        places(self) == places(other)
    }

    /// The position of each channel of the image.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = Vec::with_capacity(self.n());
        let mut start = 0;
        for segment in &self.0 {
            places.extend(start..start + segment.n);
            start += segment.padded;
        }
        places
    }

    /// The blocks that contain exactly the channels from `start` to `end`: where they begin, and their layout. `None`
    /// if a block contains others, too.
    pub(super) fn part(&self, start: usize, end: usize, block: usize) -> Option<(usize, Self)> {
        let (mut before, mut place) = (0, 0);
        let (mut first, mut parts) = (None, Vec::new());
        for segment in &self.0 {
            let (from, to) = (start.max(before), end.min(before + segment.n));
            if from < to {
                let (from, to) = (from - before, to - before);
                let is_end = to == segment.n;
                if !from.is_multiple_of(block) || !(is_end || to.is_multiple_of(block)) {
                    return None;
                }
                first.get_or_insert(place + from);
                let padded = if is_end { segment.padded } else { to } - from;
                parts.push(Self(vec![Segment { n: to - from, padded, number: segment.number }]));
            }
            before += segment.n;
            place += segment.padded;
        }
        Some((first?, Self::concat(&parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(channels: &Channels) -> Vec<(usize, usize)> {
        channels.segments().iter().map(|segment| (segment.n, segment.padded)).collect()
    }

    #[test]
    fn only_padding_divides_segments() {
        let of = |n| Channels::padded(n, 8);
        let all = Channels::concat(&[of(8), of(16), of(3), of(8), of(5)]);
        assert_eq!(sizes(&all), [(27, 32), (13, 16)]);
        assert_eq!(all.places()[26..30], [26, 32, 33, 34]);
        assert!(!all.is_trailing() && !all.is_whole() && of(8).is_whole());
    }

    #[test]
    fn parts_consist_of_whole_blocks() {
        let of = |n| Channels::padded(n, 8);
        let all = Channels::concat(&[of(27), of(13)]);
        let part =
            |start, end| all.part(start, end, 8).map(|(place, channels)| (place, sizes(&channels)));
        assert_eq!(part(0, 16), Some((0, vec![(16, 16)])));
        assert_eq!(part(24, 27), Some((24, vec![(3, 8)])));
        assert_eq!(part(27, 35), Some((32, vec![(8, 8)])));
        assert_eq!(part(8, 40), Some((8, vec![(19, 24), (13, 16)])));
        assert_eq!(part(0, 26), None);
        assert_eq!(part(4, 27), None);
    }
}
