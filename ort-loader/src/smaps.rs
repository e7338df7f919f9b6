//! Every mapping of a process, and its resident memory.
//!
//! The kernel reports a mapping's file, `[heap]` or `[stack]`; unnamed mappings are classified by their
//! neighbours. A thread's stack lies above an inaccessible guard. glibc's heaps for threads
//! start at a multiple of 64 MiB and reserve the addresses up to the next one. A mapping directly after
//! the writable part of a file is the rest of that part (`.bss`). If such neighbours are
//! merged, or another allocator is in use, memory counts as anonymous.
//!
//! Source: Linux, Documentation/filesystems/proc.rst (`smaps`).

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::iter::Sum;
use std::ops::{Add, Range};
use std::path::{Path, PathBuf};

use crate::error::MeasureError;

/// The purpose of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MappingKind {
    /// The program's file: its code, constants and variables.
    Program,
    /// A file with code that is not the program's.
    Library,
    /// Any other file, such as a mapped model.
    File,
    /// Memory that processes share without a file.
    SharedMemory,
    /// The heap, for small allocations.
    Heap,
    /// The stack of the first thread.
    Stack,
    /// The stack of another thread.
    ThreadStack,
    /// Memory without a name: large blocks, separate or merged with a neighbour.
    Anonymous,
    /// Inaccessible addresses: guards, and reservations of an allocator.
    Reserved,
    /// Mappings that every process has, such as the vDSO.
    Kernel,
}

/// One mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// As the kernel writes it: `r-xp`.
    pub permissions: String,
    /// Its purpose.
    pub kind: MappingKind,
    /// Its file, or the kernel's name for it; empty if there is none. Bytes that are not UTF-8
    /// are replaced.
    pub name: PathBuf,
    /// Whether the file was removed or replaced.
    pub is_deleted: bool,
    /// Its resident memory.
    pub pages: Pages,
}

/// The resident memory of one or several mappings, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// All addresses, resident or not.
    pub virtual_bytes: u64,
    /// Resident.
    pub resident: u64,
    /// Each page divided by the number of processes that map it.
    pub pss: u64,
    /// Shared with other processes, and unmodified.
    pub shared_clean: u64,
    /// Shared with other processes, and modified or not yet written back.
    pub shared_dirty: u64,
    /// Only in this process, and unmodified: releasing it is free.
    pub private_clean: u64,
    /// Only in this process, and modified or not yet written back.
    pub private_dirty: u64,
    /// In pages without a file: the first write to a page of a private mapping makes it one.
    pub anonymous: u64,
    /// The part of it in huge pages.
    pub anon_huge: u64,
}

impl Pages {
    /// Shared with other processes.
    pub const fn shared(&self) -> u64 {
        self.shared_clean + self.shared_dirty
    }

    /// Only in this process.
    pub const fn private(&self) -> u64 {
        self.private_clean + self.private_dirty
    }
}

impl Add for Pages {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            virtual_bytes: self.virtual_bytes + other.virtual_bytes,
            resident: self.resident + other.resident,
            pss: self.pss + other.pss,
            shared_clean: self.shared_clean + other.shared_clean,
            shared_dirty: self.shared_dirty + other.shared_dirty,
            private_clean: self.private_clean + other.private_clean,
            private_dirty: self.private_dirty + other.private_dirty,
            anonymous: self.anonymous + other.anonymous,
            anon_huge: self.anon_huge + other.anon_huge,
        }
    }
}

impl Sum for Pages {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

/// The mappings listed in `file`.
pub(crate) fn read_mappings(
    file: Cow<'static, str>,
    program: Option<&Path>,
) -> Result<Vec<MemoryMapping>, MeasureError> {
    let unreadable = |source| MeasureError::Unreadable { file: file.clone(), source };
    let text = BufReader::new(File::open(&*file).map_err(unreadable)?);
    parse(text, &file, program)
}

fn parse(
    text: impl BufRead,
    file: &str,
    program: Option<&Path>,
) -> Result<Vec<MemoryMapping>, MeasureError> {
    let mut mappings: Vec<Draft> = Vec::new();
    for (i, line) in text.split(b'\n').enumerate() {
        let unreadable = |source| MeasureError::Unreadable { file: file.to_owned().into(), source };
        let line = String::from_utf8_lossy(&line.map_err(unreadable)?).into_owned();
        let no_mapping = || MeasureError::NoMapping { file: file.to_owned().into(), line: i + 1 };
        match (Draft::of_head(&line), mappings.last_mut()) {
            (Some(mapping), _) => mappings.push(mapping),
            (None, Some(mapping)) => mapping.add(&line).ok_or_else(no_mapping)?,
            (None, None) => return Err(no_mapping()),
        }
    }
    let mappings: Result<Vec<_>, _> = mappings.into_iter().map(|it| it.finish(file)).collect();
    let mut mappings = mappings?;
    classify(&mut mappings, program);
    Ok(mappings)
}

/// The required lines of a mapping; only kernels with huge pages write AnonHugePages.
const FIELDS: [&str; 8] = [
    "Rss",
    "Pss",
    "Shared_Clean",
    "Shared_Dirty",
    "Private_Clean",
    "Private_Dirty",
    "Anonymous",
    "AnonHugePages",
];
const N_NEEDED: usize = 7;

/// A mapping while it is parsed.
struct Draft {
    mapping: MemoryMapping,
    sizes: [Option<u64>; FIELDS.len()],
}

impl Draft {
    /// From `55d0-55d2 r--p 00000000 fe:00 247282   /usr/bin/head`.
    fn of_head(line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        let (permissions, rest) = rest.split_once(' ')?;
        let mut rest = rest.splitn(4, ' ').skip(3);
        // The kernel escapes a newline in a path as octal digits.
        let name = rest.next().unwrap_or_default().trim_start().replace("\\012", "\n");
        let kept = name.strip_suffix(" (deleted)");
        let mapping = MemoryMapping {
            pages: Pages { virtual_bytes: range.end.checked_sub(range.start)?, ..Pages::default() },
            range,
            permissions: permissions.to_owned(),
            kind: MappingKind::Anonymous,
            is_deleted: kept.is_some(),
            name: kept.unwrap_or(&name).into(),
        };
        Some(Self { mapping, sizes: [None; FIELDS.len()] })
    }

    /// Parses a line `Rss:   12 kB`; other fields are ignored.
    fn add(&mut self, line: &str) -> Option<()> {
        let (name, rest) = line.split_once(':')?;
        if let Some(field) = FIELDS.iter().position(|field| *field == name) {
            let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            self.sizes[field] = Some(kib.checked_mul(1024)?);
        }
        Some(())
    }

    fn finish(self, file: &str) -> Result<MemoryMapping, MeasureError> {
        let Self { mut mapping, sizes } = self;
        if let Some(missing) = sizes[..N_NEEDED].iter().position(Option::is_none) {
            return Err(MeasureError::NoSize {
                file: file.to_owned().into(),
                field: FIELDS[missing],
            });
        }
        let sizes = sizes.map(Option::unwrap_or_default);
        let pages = &mut mapping.pages;
        [
            pages.resident,
            pages.pss,
            pages.shared_clean,
            pages.shared_dirty,
            pages.private_clean,
            pages.private_dirty,
            pages.anonymous,
            pages.anon_huge,
        ] = sizes;
        Ok(mapping)
    }
}

/// glibc's heap of a thread lies within one such block of addresses.
const THREAD_HEAP_BYTES: u64 = 64 << 20;
/// Guards are small; larger inaccessible mappings are reserved.
const MAX_GUARD_BYTES: u64 = 64 << 10;

fn classify(mappings: &mut [MemoryMapping], program: Option<&Path>) {
    let is_code = |it: &&MemoryMapping| it.permissions.contains('x') && it.name.is_absolute();
    let code: Vec<PathBuf> = mappings.iter().filter(is_code).map(|it| it.name.clone()).collect();
    for i in 0..mappings.len() {
        let mapping = &mappings[i];
        let kind = match mapping.name.to_str() {
            Some("") => nameless(mappings, i),
            Some("[heap]") => MappingKind::Heap,
            Some("[stack]") => MappingKind::Stack,
            Some(name) if name.starts_with("[anon:") => MappingKind::Anonymous,
            Some(name) if is_shared_memory(name) => MappingKind::SharedMemory,
            Some(name) if name.starts_with('[') => MappingKind::Kernel,
            _ if program == Some(&*mapping.name) => MappingKind::Program,
            _ if code.contains(&mapping.name) => MappingKind::Library,
            _ => MappingKind::File,
        };
        mappings[i].kind = kind;
    }
}

fn is_shared_memory(name: &str) -> bool {
    let prefixes = ["[anon_shmem:", "/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The kind of an unnamed mapping, by its neighbours; those below are already classified.
fn nameless(mappings: &[MemoryMapping], i: usize) -> MappingKind {
    let mapping = &mappings[i];
    if mapping.permissions.starts_with("---") {
        return MappingKind::Reserved;
    }
    let below = i.checked_sub(1).map(|below| &mappings[below]);
    let below = below.filter(|below| below.range.end == mapping.range.start);
    let above = mappings.get(i + 1).filter(|above| above.range.start == mapping.range.end);
    let is_reserved_to_the_next = above.is_some_and(|above| {
        above.permissions.starts_with("---") && above.range.end.is_multiple_of(THREAD_HEAP_BYTES)
    });
    match below {
        _ if mapping.range.start.is_multiple_of(THREAD_HEAP_BYTES) && is_reserved_to_the_next => {
            MappingKind::Heap
        }
        Some(below) if below.kind == MappingKind::Reserved => {
            match below.pages.virtual_bytes <= MAX_GUARD_BYTES {
                true => MappingKind::ThreadStack,
                false => MappingKind::Anonymous,
            }
        }
        Some(below) if below.permissions.starts_with("rw") && below.name.is_absolute() => {
            below.kind
        }
        _ => MappingKind::Anonymous,
    }
}

#[cfg(test)]
mod tests;
