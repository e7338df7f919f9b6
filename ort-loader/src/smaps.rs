//! Every mapping of a process, and what of it is in memory.
//!
//! The kernel tells a mapping's file, `[heap]` or `[stack]`; what has no name is told apart by where
//! it lies. A thread's stack lies above a guard that nobody may touch. glibc's heaps for threads
//! start at a multiple of 64 MiB and reserve the addresses up to the next one. What follows a
//! file's writable part without a gap is the rest of that part (`.bss`). Where such neighbours are
//! merged or another allocator is in use, memory counts as anonymous.
//!
//! Source: Linux, Documentation/filesystems/proc.rst (`smaps`).

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::iter::Sum;
use std::ops::{Add, Range};
use std::path::{Path, PathBuf};

use crate::error::MeasureError;

/// What a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MappingKind {
    /// The program's file: its code, constants and variables.
    Program,
    /// A file with code that is not the program's.
    Library,
    /// Any other file: mapped models among them.
    File,
    /// Memory that processes share without a file.
    SharedMemory,
    /// What the allocator takes small pieces from.
    Heap,
    /// The stack of the first thread.
    Stack,
    /// The stack of another thread.
    ThreadStack,
    /// Memory without a name: large blocks, each its own or merged with a neighbour.
    Anonymous,
    /// Addresses that nobody may touch: guards, and what an allocator reserves.
    Reserved,
    /// What the kernel maps into every process.
    Kernel,
}

/// One mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// As the kernel writes it: `r-xp`.
    pub permissions: String,
    /// What it is for.
    pub kind: MappingKind,
    /// Its file, or the name that the kernel has for it; empty without one. What of it is not UTF-8
    /// is replaced.
    pub name: PathBuf,
    /// Whether the file is no longer in its folder: removed, or replaced by another.
    pub is_deleted: bool,
    /// What of it is in memory.
    pub pages: Pages,
}

/// What of a mapping, or of several, is in memory. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// All addresses, in memory or not.
    pub virtual_bytes: u64,
    /// In memory.
    pub resident: u64,
    /// Each page divided by the number of processes that map it.
    pub pss: u64,
    /// Mapped by others too, and as its file is.
    pub shared_clean: u64,
    /// Mapped by others too, and not (or not yet) as its file is.
    pub shared_dirty: u64,
    /// Mapped by this process alone, and as its file is: costs nothing to give back.
    pub private_clean: u64,
    /// Mapped by this process alone, and not (or not yet) as its file is.
    pub private_dirty: u64,
    /// In pages that no file backs: the first write to a page of a private mapping makes it one.
    pub anonymous: u64,
    /// Of it in huge pages.
    pub anon_huge: u64,
}

impl Pages {
    /// Mapped by others too.
    pub const fn shared(&self) -> u64 {
        self.shared_clean + self.shared_dirty
    }

    /// Mapped by this process alone.
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

/// The mappings that `file` tells of.
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

/// The lines that a mapping must have; AnonHugePages only kernels with huge pages write.
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

/// A mapping that is being read.
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
        // The kernel writes a newline in a path as octal digits.
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

    /// Takes a line `Rss:   12 kB`; other fields are left alone, whatever they hold.
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
/// A guard is small; what is larger and cannot be touched is reserved.
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

/// What a mapping without a name is, told by its neighbours; those below are classified.
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
