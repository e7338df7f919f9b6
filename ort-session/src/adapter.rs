//! LoRA adapters: values for some inputs of a model, in a file of ONNX Runtime's format.

// collects are bounded: by the file's list of parameters

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ort_format::{ADAPTER_VERSION, FormatError, Limits, WriteError, open_adapter, record};
use ort_loader::{Load, LoadError, ModelBytes};
use ort_tensor::{DType, Shape, Tensor, TensorError};

use crate::error::SaveError;
use crate::save::write_whole;

/// Values for inputs of a model, such as the matrices of a LoRA adapter. One adapter serves any number of runs
/// and sessions; its tensors share the bytes of the file.
///
/// ```
/// use ort_session::{Adapter, ModelBytes, RunInputs, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let a = Tensor::from_slice(&[2, 1], &[0.5_f32, -0.5])?;
/// let bytes = Adapter::new(1, 1, [("lora_a".to_owned(), a)]).to_bytes()?;
///
/// let adapter = Adapter::from_bytes(&ModelBytes::from_vec(bytes))?;
/// let inputs: RunInputs<'_> = adapter.parameters().collect(); // and the other inputs of the run
/// # drop(inputs);
/// # Ok(())
/// # }
/// ```
///
/// Source: ONNX Runtime 1.32, `adapter_schema.fbs`.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The version of the adapter.
    pub adapter_version: i32,
    /// The version of the model that it is for.
    pub model_version: i32,
    parameters: Vec<(String, Tensor)>,
}

/// Why an adapter cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The file cannot be opened.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The bytes are not a valid adapter.
    #[error("{}{error}", path.as_ref().map(|it| format!("{}: ", it.display())).unwrap_or_default())]
    Format {
        /// The file, if the bytes come from one.
        path: Option<PathBuf>,
        /// What is wrong with it.
        error: FormatError,
    },
    /// A parameter has a type that this crate does not know.
    #[error("parameter `{name}`: unknown element type {number}")]
    DType {
        /// The parameter.
        name: String,
        /// The number of its element type.
        number: i32,
    },
    /// A parameter cannot be a tensor.
    #[error("parameter `{name}`: {error}")]
    Tensor {
        /// The parameter.
        name: String,
        /// What is wrong.
        error: TensorError,
    },
    /// A parameter holds strings, which an adapter cannot.
    #[error("parameter `{name}` holds strings, which an adapter cannot")]
    Strings {
        /// The parameter.
        name: String,
    },
    /// The adapter is too big, or two parameters have one name.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl Adapter {
    /// An adapter with these parameters.
    pub fn new(
        adapter_version: i32,
        model_version: i32,
        parameters: impl IntoIterator<Item = (String, Tensor)>,
    ) -> Self {
        Self { adapter_version, model_version, parameters: parameters.into_iter().collect() }
    }

    /// The adapter in a file, which is mapped.
    ///
    /// # Errors
    /// If the file cannot be read, is not a valid adapter, or its tensors need a copy for which there is no memory.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, AdapterError> {
        Self::from_bytes(&ModelBytes::from_path(path, Load::Auto)?)
    }

    /// The adapter in the bytes of a file.
    ///
    /// # Errors
    /// If it is not a valid adapter, or its tensors need a copy for which there is no memory.
    pub fn from_bytes(bytes: &ModelBytes) -> Result<Self, AdapterError> {
        let found = open_adapter(bytes.as_slice(), &Limits::default());
        let of_file =
            |error| AdapterError::Format { path: bytes.path().map(Path::to_owned), error };
        let found = found.map_err(of_file)?;
        let parameters = found.parameters().iter().map(|it| {
            let name = it.name().to_owned();
            let number = i32::from(it.data_type());
            let Some(dtype) = DType::from_onnx(number) else {
                return Err(AdapterError::DType { name, number });
            };
            let elements = bytes.bytes().slice_ref(it.raw_data().unwrap_or_default());
            let dims: Option<Shape> =
                it.dims().iter().map(|dim| usize::try_from(dim).ok()).collect();
            let tensor = dims.map_or_else(
                || Err(TensorError::TooLarge { shape: Vec::new() }),
                |shape| Tensor::from_bytes(dtype, &shape, elements),
            );
            match tensor {
                Ok(tensor) => Ok((name, tensor)),
                Err(error) => Err(AdapterError::Tensor { name, error }),
            }
        });
        Ok(Self {
            adapter_version: found.adapter_version(),
            model_version: found.model_version(),
            parameters: parameters.collect::<Result<_, _>>()?,
        })
    }

    /// The version of the format.
    pub fn format_version(&self) -> i32 {
        ADAPTER_VERSION
    }

    /// The values, with the names of the inputs that they are for.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.parameters.iter().map(|(name, tensor)| (&**name, tensor))
    }

    /// The bytes of a file that [`Adapter::from_bytes`] and ONNX Runtime read.
    ///
    /// # Errors
    /// If a parameter holds strings, two have one name, or the file would be too big.
    pub fn to_bytes(&self) -> Result<Vec<u8>, AdapterError> {
        let parameters = self.parameters().map(|(name, tensor)| {
            let strings = || AdapterError::Strings { name: name.to_owned() };
            let data = tensor.view().as_bytes().ok_or_else(strings)?;
            Ok(record::Parameter {
                name: name.into(),
                // A tensor has no more elements than memory has bytes, or one dimension is 0.
                dims: tensor
                    .shape()
                    .iter()
                    .map(|&n| i64::try_from(n).unwrap_or(i64::MAX))
                    .collect(),
                data_type: tensor.dtype().onnx().into(),
                raw_data: Some(Cow::Borrowed(data)),
            })
        });
        let adapter = record::Adapter {
            format_version: ADAPTER_VERSION,
            adapter_version: self.adapter_version,
            model_version: self.model_version,
            parameters: parameters.collect::<Result<_, AdapterError>>()?,
        };
        Ok(ort_format::write_adapter(&adapter)?)
    }

    /// Writes the adapter to a file, and replaces one that is there.
    ///
    /// # Errors
    /// As [`Adapter::to_bytes`], or if the system does not write it.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), AdapterError> {
        Ok(write_whole(path.as_ref(), &self.to_bytes()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter() -> Adapter {
        let a = Tensor::from_slice(&[2, 3], &[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let none = Tensor::zeros(DType::I64, &[0, 7]).unwrap();
        Adapter::new(3, 7, [("a".to_owned(), a), ("none".to_owned(), none)])
    }

    #[test]
    fn what_is_saved_is_loaded_and_shares_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.onnx_adapter");
        adapter().save(&path).unwrap();
        let loaded = Adapter::from_path(&path).unwrap();
        assert_eq!((loaded.adapter_version, loaded.model_version), (3, 7));
        assert_eq!(loaded.format_version(), 1);
        for ((name, tensor), (expected_name, expected)) in
            loaded.parameters().zip(adapter().parameters())
        {
            assert_eq!(name, expected_name);
            assert_eq!(tensor.shape(), expected.shape());
            assert_eq!(tensor.view().as_bytes(), expected.view().as_bytes());
            assert!(tensor.is_shared() || tensor.is_empty());
        }
        assert_eq!(loaded.parameters().len(), 2);
    }

    #[test]
    fn errors_name_the_file_and_the_parameter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not.onnx_adapter");
        std::fs::write(&path, b"\x08\0\0\0ORTM........").unwrap();
        let error = Adapter::from_path(&path).unwrap_err().to_string();
        let expected = "not an adapter: the identifier is \"ORTM\", not \"TORT\"";
        assert_eq!(error, format!("{}: {expected}", path.display()));
        assert!(matches!(
            Adapter::from_path(folder.path().join("none")),
            Err(AdapterError::Load(_))
        ));
        let texts = Tensor::from_strings(&[1], vec!["x".to_owned()]).unwrap();
        let error = Adapter::new(1, 1, [("t".to_owned(), texts)]).to_bytes().unwrap_err();
        assert_eq!(error.to_string(), "parameter `t` holds strings, which an adapter cannot");
        let one = || ("a".to_owned(), Tensor::scalar(1_f32));
        let error = Adapter::new(1, 1, [one(), one()]).to_bytes().unwrap_err().to_string();
        assert_eq!(error, "the file would not be valid: adapter: parameter \"a\" occurs twice");
    }
}
