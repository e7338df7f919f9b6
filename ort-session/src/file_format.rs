//! Files that are not models: their format, detected from their contents, and advice.

use std::fmt;

/// The format of a file that is neither a `.onnx` nor a `.ort` model, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// An empty file.
    Empty,
    /// A PyTorch archive: a checkpoint, a TorchScript module or an exported program.
    PyTorch,
    /// A Python pickle, as written by PyTorch before 1.6, and by scikit-learn.
    Pickle,
    /// A safetensors file.
    Safetensors,
    /// A TensorFlow Lite model.
    TfLite,
    /// A GGUF model, of llama.cpp and others.
    Gguf,
    /// A Keras 3 model.
    Keras,
    /// An HDF5 file, as written by Keras before 3.
    Hdf5,
    /// A TensorRT engine.
    TensorRt,
    /// The graph of an OpenVINO model.
    OpenVino,
    /// NumPy arrays, one or an archive.
    NumPy,
    /// A file compressed by gzip, bzip2, xz or zstd.
    Compressed,
    /// Another zip archive.
    Zip,
    /// A Git LFS pointer in place of the file.
    GitLfsPointer,
    /// A web page.
    Html,
    /// Any other text.
    Text,
}

/// The formats with a signature. Sources: the specification of each; for TensorRT Netron 8 and
/// Torch-TensorRT 2.8, which check for these.
const SIGNATURES: [(&[u8], FileFormat); 13] = [
    (b"\x80\x02", FileFormat::Pickle),
    (b"\x80\x03", FileFormat::Pickle),
    (b"\x80\x04", FileFormat::Pickle),
    (b"\x80\x05", FileFormat::Pickle),
    (b"GGUF", FileFormat::Gguf),
    (b"\x89HDF\r\n\x1a\n", FileFormat::Hdf5),
    (b"ftrt", FileFormat::TensorRt),
    (b"ptrt", FileFormat::TensorRt),
    (b"\x93NUMPY", FileFormat::NumPy),
    (b"\x1f\x8b", FileFormat::Compressed),
    (b"BZh", FileFormat::Compressed),
    (b"\xfd7zXZ\0", FileFormat::Compressed),
    (b"\x28\xb5\x2f\xfd", FileFormat::Compressed),
];

/// The length of the start of a file that is checked for being text.
const N_TEXT_BYTES: usize = 512;

impl FileFormat {
    /// The format of a file that is not a model, if it is recognized. Not called for models: a `.onnx` file may begin
    /// with any field.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::Empty);
        }
        if bytes.get(4..8) == Some(b"TFL3") {
            return Some(Self::TfLite);
        }
        if is_safetensors(bytes) {
            return Some(Self::Safetensors);
        }
        if let Some(name) = first_of_zip(bytes) {
            return Some(Self::of_zip(name));
        }
        let known = SIGNATURES.iter().find(|(signature, _)| bytes.starts_with(signature));
        known.map(|(_, format)| *format).or_else(|| Self::of_text(bytes))
    }

    /// An archive whose first file has this name.
    fn of_zip(name: &[u8]) -> Self {
        let in_folder =
            name.iter().position(|&c| c == b'/').map_or(name, |slash| &name[slash + 1..]);
        match (name, in_folder) {
            (b"metadata.json" | b"config.json" | b"model.weights.h5", _) => Self::Keras,
            (
                _,
                b"data.pkl"
                | b".format_version"
                | b"archive_format"
                | b"constants.pkl"
                | b"version"
                | b".data/serialization_id",
            ) => Self::PyTorch,
            _ if name.ends_with(b".npy") => Self::NumPy,
            _ => Self::Zip,
        }
    }

    fn of_text(bytes: &[u8]) -> Option<Self> {
        let head = &bytes[..bytes.len().min(N_TEXT_BYTES)];
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            // A character cut off at the end.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return None,
        };
        let text = text.trim_start_matches('\u{feff}');
        if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
            return None;
        }
        let lower = text.trim_start().to_ascii_lowercase();
        let begins = |beginnings: &[&str]| beginnings.iter().any(|it| lower.starts_with(it));
        Some(match () {
            () if begins(&["version https://git-lfs"]) => Self::GitLfsPointer,
            () if begins(&["<!doctype html", "<html", "<head"]) => Self::Html,
            () if begins(&["<?xml", "<net"]) && lower.contains("<net ") => Self::OpenVino,
            () => Self::Text,
        })
    }

    /// What the user can do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Empty => "write or download it again",
            Self::PyTorch => "export the model with torch.onnx.export",
            Self::Pickle => {
                "export a model of PyTorch with torch.onnx.export, one of scikit-learn with skl2onnx"
            }
            Self::Safetensors => {
                "it has weights but no graph; export the model with torch.onnx.export or \
                 `optimum-cli export onnx`"
            }
            Self::TfLite => "convert it with `python -m tf2onnx.convert --tflite`",
            Self::Gguf => "export the model it was made from with `optimum-cli export onnx`",
            Self::Keras | Self::Hdf5 => {
                "export the model from Keras with model.export(…, format=\"onnx\"), or convert it with tf2onnx"
            }
            Self::TensorRt => "only TensorRT runs it; use the ONNX model it was built from",
            Self::OpenVino => "use the ONNX model it was converted from",
            Self::NumPy => "it contains arrays, which can be a model's inputs",
            Self::Compressed => "decompress it first",
            Self::Zip => "extract the model first",
            Self::GitLfsPointer => "fetch the actual file with `git lfs pull`",
            Self::Html => "download the file itself, not a page about it",
            Self::Text => "check the path",
        }
    }
}

/// With an article: `a PyTorch file`.
impl fmt::Display for FileFormat {
    // table: one arm a format
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty file",
            Self::PyTorch => "a PyTorch file",
            Self::Pickle => "a Python pickle",
            Self::Safetensors => "a safetensors file",
            Self::TfLite => "a TensorFlow Lite model",
            Self::Gguf => "a GGUF file",
            Self::Keras => "a Keras model",
            Self::Hdf5 => "an HDF5 file",
            Self::TensorRt => "a TensorRT engine",
            Self::OpenVino => "an OpenVINO model",
            Self::NumPy => "a NumPy file",
            Self::Compressed => "a compressed file",
            Self::Zip => "a zip archive",
            Self::GitLfsPointer => "a Git LFS pointer",
            Self::Html => "an HTML page",
            Self::Text => "a text file",
        })
    }
}

/// The header's length in 8 bytes, then the header: a JSON object.
///
/// Source: safetensors 0.6, README.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, header)) = bytes.split_first_chunk() else { return false };
    let is_within = usize::try_from(u64::from_le_bytes(*length)).is_ok_and(|n| n <= header.len());
    is_within && header.starts_with(b"{")
}

/// The name of the first file of a zip archive; empty for an archive without files.
///
/// Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3.7 and 4.3.16.
fn first_of_zip(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(b"PK\x05\x06") {
        return Some(&[]);
    }
    bytes.starts_with(b"PK\x03\x04").then(|| {
        let length =
            bytes.get(26..28).map_or(0, |it| usize::from(it[0]) + 256 * usize::from(it[1]));
        bytes.get(30..30 + length).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zip(name: &str) -> Vec<u8> {
        let mut bytes = b"PK\x03\x04".to_vec();
        bytes.resize(26, 0);
        bytes.extend([u8::try_from(name.len()).unwrap(), 0, 0, 0]);
        bytes.extend(name.bytes());
        bytes
    }

    fn safetensors(length: u64, header: &str) -> Vec<u8> {
        [&length.to_le_bytes(), header.as_bytes()].concat()
    }

    #[test]
    fn a_format_is_detected_by_its_first_bytes() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
        let long = "é".repeat(300);
        for (bytes, expected) in [
            (Vec::new(), Some(FileFormat::Empty)),
            (zip("archive/data.pkl"), Some(FileFormat::PyTorch)),
            (zip("model/version"), Some(FileFormat::PyTorch)),
            (zip("resnet/.format_version"), Some(FileFormat::PyTorch)),
            (zip("metadata.json"), Some(FileFormat::Keras)),
            (zip("arr_0.npy"), Some(FileFormat::NumPy)),
            (zip("model.onnx"), Some(FileFormat::Zip)),
            (b"PK\x03\x04".to_vec(), Some(FileFormat::Zip)),
            (b"PK\x05\x06\0\0".to_vec(), Some(FileFormat::Zip)),
            (b"\x80\x02\x8a\nl\xfc".to_vec(), Some(FileFormat::Pickle)),
            (safetensors(2, "{}"), Some(FileFormat::Safetensors)),
            (safetensors(3, "{}"), None),
            (b"\x1c\0\0\0TFL3".to_vec(), Some(FileFormat::TfLite)),
            (b"GGUF\x03\0\0\0".to_vec(), Some(FileFormat::Gguf)),
            (b"\x89HDF\r\n\x1a\n\0".to_vec(), Some(FileFormat::Hdf5)),
            (b"ftrt\0\0\0\0".to_vec(), Some(FileFormat::TensorRt)),
            (b"\x93NUMPY\x01\0".to_vec(), Some(FileFormat::NumPy)),
            (b"\x1f\x8b\x08\0".to_vec(), Some(FileFormat::Compressed)),
            (pointer.into(), Some(FileFormat::GitLfsPointer)),
            (b"\n<!DOCTYPE HTML><html>".to_vec(), Some(FileFormat::Html)),
            (b"<?xml version=\"1.0\"?>\n<net name=\"m\">".to_vec(), Some(FileFormat::OpenVino)),
            (b"<?xml version=\"1.0\"?><svg/>".to_vec(), Some(FileFormat::Text)),
            (b"import onnx\n".to_vec(), Some(FileFormat::Text)),
            // Cut off within a character.
            (format!("a{long}").into(), Some(FileFormat::Text)),
            (b"\x08\x09\x12\x07pytorch".to_vec(), None),
            (b"\x1c\0\0\0ORTM\0\0".to_vec(), None),
            (vec![0xff; 9], None),
        ] {
            assert_eq!(FileFormat::of(&bytes), expected, "{:?}", bytes.escape_ascii().to_string());
        }
    }
}
