//! `NAME=…` arguments: a file or a shape for an input, a size for a dimension.

use std::path::PathBuf;
use std::str::FromStr;

/// `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// `NAME=1x3x640x640`; nothing after the `=` is the shape of a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedShape {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
}

/// `NAME=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedSize {
    pub(crate) name: String,
    pub(crate) size: usize,
}

/// An argument that is not of this form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseNamedError {
    #[error("expected NAME=FILE")]
    File,
    #[error("expected NAME=1x3x640x640")]
    Shape,
    #[error("`{0}` is not a dimension: expected NAME=1x3x640x640")]
    Dimension(String),
    #[error("expected NAME=N")]
    Size,
}

impl FromStr for NamedFile {
    type Err = ParseNamedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.to_owned(), path: path.into() })
            }
            _ => Err(ParseNamedError::File),
        }
    }
}

impl FromStr for NamedShape {
    type Err = ParseNamedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A name may contain a `=`, a shape cannot.
        let Some((name, dims)) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(ParseNamedError::Shape);
        };
        let dim = |dim: &str| dim.parse().map_err(|_| ParseNamedError::Dimension(dim.to_owned()));
        let shape = match dims {
            "" => Vec::new(),
            dims => dims.split('x').map(dim).collect::<Result<_, _>>()?,
        };
        Ok(Self { name: name.to_owned(), shape })
    }
}

impl FromStr for NamedSize {
    type Err = ParseNamedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
        let (name, size) = named.ok_or(ParseNamedError::Size)?;
        let size = size.parse().map_err(|_| ParseNamedError::Size)?;
        Ok(Self { name: name.to_owned(), size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_numbers_with_x_between() {
        let cases: [(&str, &str, &[usize]); 4] = [
            ("x=1x3x640x640", "x", &[1, 3, 640, 640]),
            ("a=b=7", "a=b", &[7]),
            ("x=0x2", "x", &[0, 2]),
            ("scalar=", "scalar", &[]),
        ];
        for (text, name, shape) in cases {
            let expected = NamedShape { name: name.to_owned(), shape: shape.to_owned() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["x", "=1x2", "x=1x", "x=axb", "x=-1", "x=1,2", "x=99999999999999999999"] {
            assert!(text.parse::<NamedShape>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_one_number() {
        let expected = NamedSize { name: "a=b".to_owned(), size: 7 };
        assert_eq!("a=b=7".parse(), Ok(expected));
        for text in ["x", "x=", "=1", "x=1x2", "x=-1"] {
            assert_eq!(text.parse::<NamedSize>(), Err(ParseNamedError::Size), "{text}");
        }
    }

    #[test]
    fn a_file_may_have_an_equals_sign_in_its_path() {
        let expected = NamedFile { name: "x".to_owned(), path: "a=b.npy".into() };
        assert_eq!("x=a=b.npy".parse(), Ok(expected));
        for text in ["x", "x=", "=x.npy", ""] {
            assert_eq!(text.parse::<NamedFile>(), Err(ParseNamedError::File), "{text}");
        }
    }
}
