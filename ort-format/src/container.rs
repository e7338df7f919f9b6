//! The kind of a file, detected before any offset is followed.

use flatbuffers::{
    ErrorTraceDetail, ForwardsUOffset, InvalidFlatbuffer, Verifiable, Verifier, VerifierOptions,
};
use ort_tensor::go_on;

use crate::error::{Damage, FormatError};
use crate::limits::Limits;
use crate::view::{Adapter, File};
use crate::wire::{Element, Position};

/// Bytes 4 to 7 of every file.
pub(crate) const IDENTIFIER: &str = "ORTM";

/// Bytes 4 to 7 of an adapter.
pub(crate) const ADAPTER_IDENTIFIER: &str = "TORT";

/// The supported version of LoRA adapters.
pub const ADAPTER_VERSION: i32 = 1;

/// The newest version that can be read, and the one that is written.
pub const NEWEST_VERSION: u32 = 6;

/// Offsets have 31 bits.
pub const MAX_FILE_LENGTH: usize = 0x7fff_ffff;

/// The root table, after verifying that the bytes are tables of the schema and within the limits.
pub(crate) fn root<'a>(bytes: &'a [u8], limits: &Limits) -> Result<File<'a>, FormatError> {
    recognise(bytes)?;
    // Views never fail: the version can be read before the rest, whose layout a newer version may change.
    let file = File::read(Position::start(bytes)).unwrap_or_default();
    if let Some(found) = file.version().filter(|&version| version > NEWEST_VERSION) {
        return Err(FormatError::TooNew { found });
    }
    verify::<File<'_>>(bytes, limits)?;
    Ok(file)
}

/// The same for an adapter.
pub(crate) fn adapter<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Adapter<'a>, FormatError> {
    let found = bytes.get(4..8).unwrap_or_default();
    if found != ADAPTER_IDENTIFIER.as_bytes() {
        return Err(FormatError::NotAdapter { found: found.escape_ascii().to_string() });
    }
    if bytes.len() > MAX_FILE_LENGTH {
        return Err(FormatError::TooBig { length: bytes.len() });
    }
    let adapter = Adapter::read(Position::start(bytes)).unwrap_or_default();
    if adapter.format_version() != ADAPTER_VERSION {
        return Err(FormatError::AdapterVersion { found: adapter.format_version() });
    }
    verify::<Adapter<'_>>(bytes, limits)?;
    Ok(adapter)
}

/// Verifies that the bytes are tables of the schema with this root, and within the limits.
fn verify<Root: Verifiable>(bytes: &[u8], limits: &Limits) -> Result<(), FormatError> {
    let options = VerifierOptions {
        max_depth: limits.depth,
        max_tables: limits.tables,
        // The constant is for files of a few hundred bytes, which share most of them.
        max_apparent_size: bytes
            .len()
            .saturating_mul(limits.apparent_ratio)
            .saturating_add(1 << 16),
        ignore_missing_null_terminator: false,
    };
    let mut verifier = Verifier::new(&options, bytes);
    let verified = <ForwardsUOffset<Root>>::run_verifier(&mut verifier, 0);
    // A cancelled verifier fails, too.
    go_on()?;
    verified.map_err(damaged)
}

fn recognise(bytes: &[u8]) -> Result<(), FormatError> {
    let length = bytes.len();
    if length == 0 {
        return Err(FormatError::Empty);
    }
    if looks_like_onnx(bytes) {
        return Err(FormatError::OnnxProtobuf);
    }
    let Some(found) = bytes.get(4..8).filter(|_| length > 8) else {
        return Err(FormatError::TooShort { length });
    };
    if found != IDENTIFIER.as_bytes() {
        return Err(FormatError::NotOrt { found: found.escape_ascii().to_string() });
    }
    if length > MAX_FILE_LENGTH {
        return Err(FormatError::TooBig { length });
    }
    Ok(())
}

/// A protobuf `ModelProto` starts with its field 1, a small varint (the IR version), and another of its fields.
fn looks_like_onnx(bytes: &[u8]) -> bool {
    const TAGS: [u8; 10] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72, 0xa2, 0xca];
    let is_ort = bytes.get(4..8) == Some(IDENTIFIER.as_bytes());
    !is_ort && matches!(bytes, [0x08, 1..=0x3f, tag, ..] if TAGS.contains(tag))
}

fn damaged(error: InvalidFlatbuffer) -> FormatError {
    use InvalidFlatbuffer as Invalid;
    let (trace, damage) = match error {
        Invalid::TooManyTables => return FormatError::Limit { limit: "tables" },
        Invalid::ApparentSizeTooLarge => return FormatError::Limit { limit: "apparent_ratio" },
        Invalid::DepthLimitReached => return FormatError::Limit { limit: "depth" },
        Invalid::RangeOutOfBounds { range, error_trace } => {
            (error_trace, Damage::OutOfBounds { start: range.start, end: range.end })
        }
        Invalid::Unaligned { position, error_trace, .. } => {
            (error_trace, Damage::Misaligned { position })
        }
        Invalid::Utf8Error { range, error_trace, .. } => {
            (error_trace, Damage::NotUtf8 { position: range.start })
        }
        Invalid::MissingNullTerminator { range, error_trace } => {
            (error_trace, Damage::NotTerminated { position: range.start })
        }
        Invalid::SignedOffsetOutOfBounds { position, error_trace, .. } => {
            (error_trace, Damage::NoVtable { position })
        }
        Invalid::MissingRequiredField { error_trace, .. }
        | Invalid::InconsistentUnion { error_trace, .. } => (error_trace, Damage::Other),
    };
    FormatError::Damaged { place: path(trace.as_ref()), damage }
}

/// The verifier's trace is ordered from the inside out.
fn path(trace: &[ErrorTraceDetail]) -> String {
    let mut path = String::from("file");
    for detail in trace.iter().rev() {
        match detail {
            ErrorTraceDetail::VectorElement { index, .. } => path += &format!("[{index}]"),
            ErrorTraceDetail::TableField { field_name: name, .. }
            | ErrorTraceDetail::UnionVariant { variant: name, .. } => path += &format!(".{name}"),
        }
    }
    path
}
