//! Element types, shapes, tensors, and the bytes below them.
//!
//! A [`Tensor`] is row-major and contiguous. Its bytes are either a slice of the model file
//! (shared, never copied when its alignment allows a typed view) or its own [`AlignedBuf`].
//! A [`Value`] is what flows along an edge of a graph: a tensor, a sequence, a map or an optional.
//! An operator reads [`Inputs`] and fills [`Output`]s, without knowing where their memory was allocated.
//!
//! This crate knows nothing about graphs, files or operators.
//!
//! # When to use it alone
//!
//! For tensors of all ONNX element types that can share the bytes of a file.
//!
//! ```
//! use ort_tensor::{DType, Tensor};
//!
//! # fn main() -> Result<(), ort_tensor::TensorError> {
//! let tensor = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
//! assert_eq!((tensor.dtype(), tensor.shape()), (DType::F32, &[2, 2][..]));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

// Elements are used in place from files, which are little-endian.
#[cfg(not(target_endian = "little"))]
compile_error!("models are little-endian and used in place: big-endian machines are not supported");

mod bytes;
mod dtype;
mod element;
mod ending;
mod error;
mod float8;
mod growing;
mod io;
mod missing;
#[cfg(feature = "ndarray")]
mod ndarray;
mod packed;
mod room;
mod shape;
mod sort;
mod spares;
mod tensor;
mod text;
mod value;
mod view;

#[doc(hidden)]
pub mod dispatch;

pub use crate::bytes::{AlignedBuf, Home};
pub use crate::dtype::{DType, ParseDTypeError};
pub use crate::element::{Bool, Complex, Element, Number, Word};
pub use crate::ending::{Ending, Pace, by_pieces, can_end, ended_by, go_on};
pub use crate::error::TensorError;
pub use crate::float8::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0};
pub use crate::growing::GrowingTensor;
pub use crate::io::{Inputs, Memory, Output};
pub use crate::packed::{pack, unpack};
pub use crate::room::{
    Room, allowance_left, charge, collected, filled, try_collected, with_room, within,
};
pub use crate::shape::{Shape, broadcast, broadcast_strides, n_elements, row_major_strides};
pub use crate::sort::sort;
pub use crate::spares::reusing;
pub use crate::tensor::{Tensor, materialize};
pub use crate::text::{copy_texts, text_of};
pub use crate::value::{Map, Value, ValueView};
pub use crate::view::{TensorView, TensorViewMut};
pub use half::{bf16, f16};
