//! The header of a packed file: the machine and options that it was packed for, and
//! a checksum.
//!
//! It is stored in the model's metadata. The checksum covers every byte of the file, with its own digits
//! as zeros: any flipped bit is detected before the file is used.

// collects are bounded: one for each CHUNK_BYTES, and as long as the options

use std::ops::Range;
use std::sync::OnceLock;

use ort_ep::Threads;
use ort_format::{File, FormatError, Limits};
use ort_tensor::TensorError;
use twox_hash::XxHash3_64;

/// The keys of the metadata.
const FOR: &str = "ort-session.packed_for";
const OF: &str = "ort-session.packed_of";
const SUM: &str = "ort-session.packed_sum";

/// The placeholder for a checksum, with as many digits.
const UNKNOWN_SUM: &str = "0000000000000000";
/// The number of bytes that a thread hashes at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Whether to go on: threads other than the caller's have no check of their own.
pub(crate) type GoesOn<'a> = dyn Fn() -> bool + Sync + 'a;

/// The header of a packed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal<'a> {
    /// The target of its constants.
    pub(crate) packed_for: &'a str,
    /// The model it was made of, for a file of a cache.
    pub(crate) of: Option<&'a str>,
    sum: &'a str,
}

impl<'a> Seal<'a> {
    /// The header of `file`, if it has one.
    pub(crate) fn of(file: File<'a>) -> Option<Self> {
        let text = |name: &str| {
            let mut texts = file.model().metadata_props().iter();
            texts.find(|text| text.key() == name).map(|text| text.value())
        };
        Some(Self { packed_for: text(FOR)?, of: text(OF), sum: text(SUM)? })
    }

    /// Whether the checksum of `bytes`, the whole file, is correct.
    ///
    /// # Errors
    /// If `goes_on`, which every thread asks, returned false.
    pub(crate) fn is_whole(
        &self,
        bytes: &[u8],
        threads: &dyn Threads,
        goes_on: &GoesOn<'_>,
    ) -> Result<bool, TensorError> {
        match place_in(bytes, self.sum) {
            Some(place) => Ok(sum(bytes, place, threads, goes_on)? == self.sum),
            None => Ok(false),
        }
    }
}

/// The metadata of a packed file: header entries replace existing ones; sorted by key.
pub(crate) fn texts(
    texts: &[(String, String)],
    packed_for: &str,
    of: Option<&str>,
) -> Vec<(String, String)> {
    let own = [(FOR, Some(packed_for)), (OF, of), (SUM, Some(UNKNOWN_SUM))];
    let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    let own = own.into_iter().filter_map(|(name, text)| Some((name, text?))).map(owned);
    let mut texts = unsealed(texts);
    texts.extend(own);
    texts.sort();
    texts
}

/// The metadata without the header.
pub(crate) fn unsealed(texts: &[(String, String)]) -> Vec<(String, String)> {
    let is_own = |name: &str| [FOR, OF, SUM].contains(&name);
    texts.iter().filter(|(name, _)| !is_own(name)).cloned().collect()
}

/// The model of a cache's file with this metadata.
pub(crate) fn made_of(texts: &[(String, String)]) -> Option<&str> {
    texts.iter().find(|(name, _)| name == OF).map(|(_, text)| text.as_str())
}

/// The file; `None` if the bytes are none.
///
/// # Errors
/// If there is no memory for its checks, or the thread was cancelled.
pub(crate) fn if_ort<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<File<'a>>, TensorError> {
    match ort_format::open(bytes, limits) {
        Ok(file) => Ok(Some(file)),
        Err(FormatError::Memory(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Writes the checksum into the bytes of a file with [`texts`].
///
/// # Errors
/// If there is no memory for the checks of the file, or `goes_on` returned false.
pub(crate) fn seal(
    bytes: &mut [u8],
    threads: &dyn Threads,
    goes_on: &GoesOn<'_>,
) -> Result<(), TensorError> {
    let file = if_ort(bytes, &Limits::default())?;
    let place = file.and_then(Seal::of).and_then(|seal| place_in(bytes, seal.sum));
    if let Some(place) = place {
        let sum = sum(bytes, place.clone(), threads, goes_on)?;
        bytes[place].copy_from_slice(sum.as_bytes());
    }
    Ok(())
}

fn place_in(bytes: &[u8], part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    (part.len() == UNKNOWN_SUM.len()).then_some(start..start + part.len())
}

/// The XXH3 (64 bits) of the XXH3s of all chunks, as hexadecimal digits, with zeros at `place`.
fn sum(
    bytes: &[u8],
    place: Range<usize>,
    threads: &dyn Threads,
    goes_on: &GoesOn<'_>,
) -> Result<String, TensorError> {
    let chunks: Vec<(&[u8], OnceLock<u64>)> =
        bytes.chunks(CHUNK_BYTES).map(|chunk| (chunk, OnceLock::new())).collect();
    threads.for_each(chunks.len(), &|i| {
        if !goes_on() {
            return;
        }
        let (chunk, sum) = &chunks[i];
        let first = i * CHUNK_BYTES;
        let here = place.start.max(first)..place.end.min(first + chunk.len());
        sum.get_or_init(|| match here.is_empty() {
            true => XxHash3_64::oneshot(chunk),
            false => {
                let mut blank = chunk.to_vec();
                blank[here.start - first..here.end - first].fill(b'0');
                XxHash3_64::oneshot(&blank)
            }
        });
    });
    let sums = chunks.into_iter().map(|(_, sum)| sum.into_inner().map(u64::to_le_bytes));
    let sums: Vec<_> = sums.collect::<Option<_>>().ok_or(TensorError::Ended)?;
    Ok(format!("{:016x}", XxHash3_64::oneshot(sums.as_flattened())))
}

#[cfg(test)]
mod tests {
    use ort_ep::OneThread;
    use ort_format::record::{self, Graph, Model, ValueInfo};
    use ort_tensor::within;

    use super::*;

    fn summed(bytes: &[u8], place: Range<usize>) -> String {
        sum(bytes, place, &OneThread, &|| true).unwrap()
    }

    #[test]
    fn memory_that_checks_lack_is_an_error() {
        let value = ValueInfo { name: "x".into(), ..ValueInfo::default() };
        let (node_args, inputs) = (vec![value], vec!["x".into()]);
        let graph = Graph { node_args, inputs, ..Graph::default() };
        let model = Model { graph, ..Model::default() };
        let bytes = ort_format::write(&record::File { model, ..Default::default() }).unwrap();
        let limits = Limits::default();
        assert!(matches!(
            (if_ort(&bytes, &limits), if_ort(b"?", &limits)),
            (Ok(Some(_)), Ok(None))
        ));
        let refused = within(1, 1, || if_ort(&bytes, &limits).map(|_| ()));
        assert!(matches!(refused, Err(TensorError::NoMemory { .. })));
    }

    #[test]
    fn a_checksum_is_not_computed_from_a_part() {
        let bytes = vec![0; 3 * CHUNK_BYTES];
        assert_eq!(sum(&bytes, 0..16, &OneThread, &|| false), Err(TensorError::Ended));
    }

    #[test]
    fn a_checksum_covers_every_byte_but_its_own_digits() {
        let mut bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * CHUNK_BYTES + 77).collect();
        // Digits across the boundary of two chunks.
        let place = CHUNK_BYTES - 5..CHUNK_BYTES + 11;
        let whole = summed(&bytes, place.clone());
        for i in [0, CHUNK_BYTES - 6, CHUNK_BYTES - 5, CHUNK_BYTES + 10, CHUNK_BYTES + 11] {
            bytes[i] ^= 0x10;
            let is_same = summed(&bytes, place.clone()) == whole;
            assert_eq!(is_same, place.contains(&i), "byte {i}");
            bytes[i] ^= 0x10;
        }
        let last = bytes.len() - 1;
        assert_ne!(summed(&bytes[..last], place), whole);
    }

    #[test]
    fn an_earlier_header_is_replaced() {
        let owned = |texts: &[(&str, &str)]| -> Vec<_> {
            texts.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
        };
        let found = owned(&[(FOR, "other"), (OF, "model"), (SUM, "sum"), ("a", "b")]);
        let texts = texts(&found, "this", None);
        assert_eq!(texts, owned(&[("a", "b"), (FOR, "this"), (SUM, UNKNOWN_SUM)]));
        assert_eq!(unsealed(&found), owned(&[("a", "b")]));
        assert_eq!([&found, &texts].map(|texts| made_of(texts)), [Some("model"), None]);
    }
}
