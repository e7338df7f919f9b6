//! String tensors: filled and read.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;

use ort_session::{Tensor, TensorView, Value as Owned};

use crate::error::Error;
use crate::ffi::{Out, OutMemory, Outs, Shared, default_allocator, export};
use crate::value::Value;

impl Value {
    /// Strings become what the program has written into their buffers.
    pub(crate) fn update_strings(&self) -> Result<(), Error> {
        let buffers = self.buffers();
        if buffers.is_empty() {
            return Ok(());
        }
        fill(self, |texts| {
            buffers.iter().try_for_each(|(index, buffer)| {
                let text = std::str::from_utf8(buffer.bytes());
                let text = text.map_err(|_| Error::fail(format!("string {index} is not UTF-8")))?;
                at(texts, *index)?;
                text.clone_into(&mut texts[*index]);
                Ok(())
            })
        })
    }
}

/// Calls `read` with the strings of a value.
fn read<R>(value: &Value, read: impl FnOnce(&[String]) -> Result<R, Error>) -> Result<R, Error> {
    value.update_strings()?;
    let other = value.other().ok_or_else(not_strings)?;
    let view: TensorView<'_> = other.as_tensor()?.view();
    read(view.as_strings()?)
}

/// Changes the strings of a value.
fn fill(value: &Value, fill: impl FnOnce(&mut [String]) -> Result<(), Error>) -> Result<(), Error> {
    let mut other = value.other_mut().ok_or_else(not_strings)?;
    let tensor: &mut Tensor = match &mut *other {
        Owned::Tensor(tensor) => tensor,
        _ => return Err(not_strings()),
    };
    fill(tensor.view_mut().into_strings()?)
}

fn not_strings() -> Error {
    Error::argument("value", "is not a string tensor")
}

fn at(texts: &[String], index: usize) -> Result<&String, Error> {
    let none =
        || Error::argument("index", format!("is {index}, and there are {} strings", texts.len()));
    texts.get(index).ok_or_else(none)
}

export! {
    fn FillStringTensor(value: Shared<'_, Value>, s: Vec<&str>[s_len], s_len: usize) {
        fill(&value, |texts| {
            if texts.len() != s_len {
                return Err(Error::argument("s_len", format!("is {s_len}, and there are {}", texts.len())));
            }
            texts.iter_mut().zip(s).for_each(|(to, from)| from.clone_into(to));
            value.buffers().clear();
            Ok(())
        })
    }

    fn FillStringTensorElement(value: Shared<'_, Value>, s: &str, index: usize) {
        fill(&value, |texts| {
            at(texts, index)?;
            s.clone_into(&mut texts[index]);
            value.buffers().retain(|(other, _)| *other != index);
            Ok(())
        })
    }

    /// The program writes the string into the buffer, which is valid until it is requested again, or the value is filled or
    /// released. The string is what the buffer holds when the value is read: then it must be UTF-8.
    fn GetResizedStringTensorElementBuffer(
        value: Shared<'_, Value>,
        index: usize,
        length_in_bytes: usize,
        buffer: Out<'_, *mut c_char>,
    ) {
        let block = default_allocator().block(length_in_bytes)?;
        read(&value, |texts| {
            let bytes = at(texts, index)?.bytes();
            block.bytes_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            Ok(())
        })?;
        buffer.set(block.as_ptr().cast());
        let mut buffers = value.buffers();
        buffers.retain(|(other, _)| *other != index);
        buffers.push((index, block));
        Ok(())
    }

    fn GetStringTensorDataLength(value: &Value, len: Out<'_, usize>) {
        len.set(read(value, |texts| Ok(texts.iter().map(String::len).sum()))?);
        Ok(())
    }

    /// The strings, concatenated without NULs, and the offset of each.
    fn GetStringTensorContent(
        value: &Value,
        s: OutMemory<'_>[s_len],
        s_len: usize,
        offsets: Outs<'_, usize>[offsets_len],
        offsets_len: usize,
    ) {
        read(value, |texts| {
            let needed: usize = texts.iter().map(String::len).sum();
            if s_len < needed {
                return Err(Error::argument("s_len", format!("is {s_len}, and the strings take {needed}")));
            }
            if offsets_len != texts.len() {
                return Err(Error::argument("offsets_len", "is not the number of strings"));
            }
            s.0.fill(texts.iter().flat_map(|text| text.bytes()));
            let mut end = 0;
            offsets.fill(texts.iter().map(|text| {
                let start = end;
                end += text.len();
                start
            }));
            Ok(())
        })
    }

    fn GetStringTensorElementLength(value: &Value, index: usize, out: Out<'_, usize>) {
        out.set(read(value, |texts| Ok(at(texts, index)?.len()))?);
        Ok(())
    }

    fn GetStringTensorElement(
        value: &Value,
        s_len: usize,
        index: usize,
        s: OutMemory<'_>[s_len],
    ) {
        read(value, |texts| {
            let text = at(texts, index)?;
            if s_len < text.len() {
                return Err(Error::argument("s_len", format!("is {s_len}, and the string takes {}", text.len())));
            }
            s.0.fill(text.bytes());
            Ok(())
        })
    }
}
