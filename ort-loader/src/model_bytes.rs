//! The bytes of one model, and their owner.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{AdviseError, LoadError, MeasureError};
use crate::load::{Load, load, load_within};
use crate::pages::{page_size, whole_pages};
use crate::residency::{Residency, residency};
use crate::source::Mapping;

/// The bytes of a model, shared: clones, and slices of [`bytes`](Self::bytes), keep the owner
/// alive and copy nothing.
#[derive(Clone)]
pub struct ModelBytes {
    bytes: Bytes,
    origin: Arc<Origin>,
}

/// The owner of a model's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A mapped file.
    Mapped,
    /// Memory of this process: a file that was read, or the caller's vector.
    Heap,
    /// A copy of a file in immutable memory ([`Load::Sealed`]).
    Sealed,
    /// The program itself.
    Static,
    /// A value of the caller.
    Owner,
}

/// The origin of the bytes. `mapping` is present exactly when `kind` is [`Kind::Mapped`].
pub(crate) struct Origin {
    pub(crate) kind: Kind,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) fallback: Option<io::Error>,
}

impl ModelBytes {
    /// The bytes of the file at `path`; at least one.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] that distinguishes a missing path, a folder, an empty file, an unreadable one,
    /// and, for [`Load::Mapped`] and [`Load::Populated`], one that cannot be mapped.
    pub fn from_path(path: impl AsRef<Path>, how: Load) -> Result<Self, LoadError> {
        load(path.as_ref(), how)
    }

    /// The bytes of the file `relative` of a folder, which must lie within it: a symbolic link that leads out of
    /// the folder, or a file with several hard links, is an error.
    ///
    /// # Errors
    ///
    /// As [`ModelBytes::from_path`], and [`LoadError::Outside`].
    pub fn from_path_within(
        folder: impl AsRef<Path>,
        relative: impl AsRef<Path>,
        how: Load,
    ) -> Result<Self, LoadError> {
        load_within(folder.as_ref(), relative.as_ref(), how)
    }

    /// The vector's bytes, not copied.
    pub fn from_vec(vec: Vec<u8>) -> Self {
        Self::new(Bytes::from(vec), Origin::of(Kind::Heap))
    }

    /// Bytes that are part of the program, as returned by `include_bytes!`.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self::new(Bytes::from_static(bytes), Origin::of(Kind::Static))
    }

    /// The bytes of `owner`, not copied; it is dropped with the last clone or slice.
    ///
    /// `as_ref` is called once; the slice that it returns is the model.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::new(Bytes::from_owner(owner), Origin::of(Kind::Owner))
    }

    pub(crate) fn new(bytes: Bytes, origin: Origin) -> Self {
        Self { bytes, origin: Arc::new(origin) }
    }

    /// All bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, for slices that share the owner (`slice`, `slice_ref`).
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The number of bytes.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes; never true for a file.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The owner of the bytes.
    pub fn kind(&self) -> Kind {
        self.origin.kind
    }

    /// The path that the bytes were loaded from, as passed.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path.as_deref()
    }

    /// Why [`Load::Auto`] read the file instead of mapping it; `None` if it did not.
    pub fn fallback(&self) -> Option<&io::Error> {
        self.origin.fallback.as_ref()
    }

    /// How many of the bytes are in memory now, shared with other mappings or not.
    ///
    /// `Ok(None)` where the system does not report it: everywhere but on Linux.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if the kernel's table of pages cannot be read.
    pub fn residency(&self) -> Result<Option<Residency>, MeasureError> {
        residency(&self.bytes)
    }

    /// The position of `part` within the bytes; `None` if it is not a slice of them.
    pub fn range_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let start = part.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let end = start.checked_add(part.len())?;
        (end <= self.len()).then_some(start..end)
    }

    /// Releases the mapped pages that lie wholly within `range` to the system, and returns their size
    /// in bytes. They stay readable: the next access reloads them from the file.
    ///
    /// Useful for weights that were packed into other memory. Zero if there is nothing to
    /// release: bytes that are not mapped, a range without a whole page, a system without
    /// `madvise`. The last page counts as whole if `range` ends where the file does.
    ///
    /// # Errors
    ///
    /// [`AdviseError`] if `range` exceeds the bytes, or the system returns an error.
    pub fn advise_dont_need(&self, range: Range<usize>) -> Result<usize, AdviseError> {
        if self.bytes.get(range.clone()).is_none() {
            return Err(AdviseError::OutOfBounds { range, len: self.len() });
        }
        let pages = whole_pages(range, self.len(), page_size());
        match &self.origin.mapping {
            // An empty range is skipped: the system would release the page around it.
            Some(mapping) if !pages.is_empty() => release(mapping, pages),
            _ => Ok(0),
        }
    }
}

#[cfg(unix)]
fn release(mapping: &Mapping, pages: Range<usize>) -> Result<usize, AdviseError> {
    match mapping.drop_pages(pages.clone()) {
        Ok(()) => Ok(pages.len()),
        Err(source) => Err(AdviseError::Refused { range: pages, source }),
    }
}

#[cfg(not(unix))]
fn release(_: &Mapping, _: Range<usize>) -> Result<usize, AdviseError> {
    Ok(0)
}

impl Origin {
    fn of(kind: Kind) -> Self {
        Self { kind, mapping: None, path: None, fallback: None }
    }
}

impl AsRef<[u8]> for ModelBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for ModelBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelBytes")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1_000_000;

    fn mapped() -> (tempfile::TempDir, ModelBytes) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ort");
        std::fs::write(&path, vec![7; LEN]).unwrap();
        let model = ModelBytes::from_path(&path, Load::Mapped).unwrap();
        (folder, model)
    }

    fn touch(model: &ModelBytes) -> usize {
        model.as_slice().iter().map(|&byte| usize::from(byte)).sum()
    }

    /// `None`, with a message, on a system that does not report it, or in a sandbox that hides it.
    fn measured(model: &ModelBytes) -> Option<Residency> {
        match model.residency() {
            Ok(Some(residency)) => return Some(residency),
            Ok(None) => println!("skipped: this system does not report residency"),
            Err(error) => println!("skipped: {error}"),
        }
        None
    }

    #[test]
    fn passed_bytes_are_not_copied() {
        let vec = vec![1, 2, 3];
        let address = vec.as_ptr();
        let model = ModelBytes::from_vec(vec);
        assert_eq!((model.as_slice().as_ptr(), model.kind()), (address, Kind::Heap));

        static PROGRAM: [u8; 3] = [1, 2, 3];
        let model = ModelBytes::from_static(&PROGRAM);
        assert_eq!((model.as_slice().as_ptr(), model.kind()), (PROGRAM.as_ptr(), Kind::Static));

        let owner: Arc<[u8]> = Arc::from([1, 2, 3]);
        let model = ModelBytes::from_owner(Arc::clone(&owner));
        assert_eq!((model.as_slice().as_ptr(), model.kind()), (owner.as_ptr(), Kind::Owner));
        assert_eq!(model.path(), None);
    }

    #[test]
    fn the_owner_lives_as_long_as_the_last_slice() {
        let owner: Arc<[u8]> = Arc::from(*b"weights");
        let model = ModelBytes::from_owner(Arc::clone(&owner));
        let slice = model.bytes().slice_ref(&model.as_slice()[2..4]);
        drop(model);
        assert_eq!(Arc::strong_count(&owner), 2);
        assert_eq!(&slice[..], b"ig");
        drop(slice);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn a_mapping_lives_as_long_as_the_last_slice() {
        let (folder, model) = mapped();
        let slice = model.bytes().slice(LEN - 2..);
        drop((folder, model));
        assert_eq!(&slice[..], [7, 7]);
    }

    #[test]
    fn only_slices_of_the_bytes_have_a_range() {
        let model = ModelBytes::from_vec(vec![0; 10]);
        let all = model.as_slice();
        assert_eq!(model.range_of(all), Some(0..10));
        assert_eq!(model.range_of(&all[3..5]), Some(3..5));
        assert_eq!(model.range_of(&all[10..]), Some(10..10));
        assert_eq!(model.range_of(&[0; 4]), None);
    }

    #[test]
    fn touched_pages_of_any_kind_are_resident() {
        let (_folder, mapped) = mapped();
        let heap = ModelBytes::from_vec(vec![7; LEN]);
        for model in [mapped, heap] {
            assert_eq!(touch(&model), 7 * LEN);
            let Some(residency) = measured(&model) else { return };
            assert_eq!(residency.resident, LEN, "{model:?}");
            assert_eq!(residency.shared + residency.private, LEN, "{model:?}");
        }
        let empty = ModelBytes::from_static(&[]);
        assert_eq!(measured(&empty), Some(Residency::default()));
    }

    #[test]
    fn two_mappings_of_a_file_share_its_pages_and_heap_is_private() {
        let (_folder, first) = mapped();
        let path = first.path().unwrap();
        let second = ModelBytes::from_path(path, Load::Mapped).unwrap();
        assert_eq!(touch(&first), touch(&second));
        for model in [&first, &second] {
            let Some(residency) = measured(model) else { return };
            assert_eq!(residency.shared, LEN);
        }
        drop(second);
        assert_eq!(measured(&first).unwrap().private, LEN);

        let heap = ModelBytes::from_path(path, Load::Read).unwrap();
        assert_eq!(measured(&heap).unwrap().private, LEN);
    }

    #[test]
    fn only_a_populated_mapping_is_resident_before_it_is_touched() {
        let (_folder, mapped) = mapped();
        let path = mapped.path().unwrap();
        let populated = ModelBytes::from_path(path, Load::Populated).unwrap();
        let Some(residency) = measured(&populated) else { return };
        assert_eq!(residency.resident, LEN);
        assert_eq!(measured(&mapped), Some(Residency::default()));
    }

    #[cfg(unix)]
    #[test]
    fn released_pages_leave_memory_and_reload_with_their_content() {
        let (_folder, model) = mapped();
        let expected = touch(&model);
        let released = model.advise_dont_need(1..LEN).unwrap();
        assert_eq!(released, LEN - page_size());
        if let Some(residency) = measured(&model) {
            assert_eq!(residency.resident, page_size());
        }
        assert_eq!(touch(&model), expected);
    }

    #[test]
    fn a_range_within_a_page_releases_nothing() {
        let (_folder, model) = mapped();
        touch(&model);
        for range in [LEN - 1..LEN, LEN..LEN, 0..0, 1..2, 1..page_size()] {
            assert_eq!(model.advise_dont_need(range.clone()).unwrap(), 0, "{range:?}");
        }
        let Some(residency) = measured(&model) else { return };
        assert_eq!(residency.resident, LEN);
    }

    #[test]
    fn without_a_mapping_nothing_is_released() {
        let model = ModelBytes::from_vec(vec![7; LEN]);
        assert_eq!(model.advise_dont_need(0..LEN).unwrap(), 0);
        assert_eq!(touch(&model), 7 * LEN);
    }

    #[test]
    fn a_range_outside_the_bytes_is_an_error() {
        let (_folder, model) = mapped();
        let backwards = Range { start: 5, end: 4 };
        for range in [0..LEN + 1, LEN + 1..LEN + 1, backwards, 0..usize::MAX] {
            let error = model.advise_dont_need(range).unwrap_err();
            assert!(matches!(error, AdviseError::OutOfBounds { len: LEN, .. }), "{error}");
        }
    }

    #[test]
    fn debug_does_not_print_the_bytes() {
        let text = format!("{:?}", ModelBytes::from_vec(vec![7; 3]));
        assert_eq!(text, "ModelBytes { kind: Heap, len: 3, path: None, .. }");
    }
}
