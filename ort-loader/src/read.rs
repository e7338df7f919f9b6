//! Reads a whole file into one aligned buffer.

use std::fs::File;
use std::io::{self, Read};

use ort_tensor::{AlignedBuf, charge};

/// The file's bytes, counted against the allowance of this thread. Its size is only a hint: it may grow or shrink during the read, and a
/// pipe or a file of `/proc` has size zero.
pub(crate) fn read_whole(file: &File) -> io::Result<AlignedBuf> {
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    charge(size).map_err(io::Error::other)?;
    let mut buf = AlignedBuf::try_zeroed(size).ok_or(io::ErrorKind::OutOfMemory)?;
    let n_read = fill(file, buf.as_mut())?;
    let mut rest = Vec::new();
    let mut source = file;
    source.read_to_end(&mut rest)?;
    if n_read == size && rest.is_empty() {
        return Ok(buf);
    }
    let whole = AlignedBuf::try_zeroed(n_read + rest.len());
    let mut whole = whole.ok_or(io::ErrorKind::OutOfMemory)?;
    let (head, tail) = whole.as_mut().split_at_mut(n_read);
    head.copy_from_slice(&buf.as_ref()[..n_read]);
    tail.copy_from_slice(&rest);
    Ok(whole)
}

/// A copy of the file in memory of fixed size that cannot be written to.
#[cfg(target_os = "linux")]
pub(crate) fn sealed_copy(mut file: &File) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let mut copy =
        File::from(memfd_create("model", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    let size = file.metadata()?.len();
    let size = usize::try_from(size).map_err(io::Error::other)?;
    charge(size).map_err(io::Error::other)?;
    // Fails at once if the system has not enough memory.
    let has_room = AlignedBuf::try_zeroed(size);
    drop(has_room.ok_or(io::ErrorKind::OutOfMemory)?);
    io::copy(&mut file, &mut copy)?;
    fcntl_add_seals(
        &copy,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    Ok(copy)
}

/// Reads until `buf` is full or the source has ended; returns the number of bytes.
fn fill(mut source: impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut n_read = 0;
    while n_read < buf.len() {
        match source.read(&mut buf[n_read..]) {
            Ok(0) => break,
            Ok(n) => n_read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_read)
}
