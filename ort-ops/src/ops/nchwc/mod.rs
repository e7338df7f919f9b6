//! The operators of com.microsoft.nchwc, whose activations and filters are in NCHWc
//! (see [`blocked`](crate::blocked)). Shapes are those of the plain operators, with channels
//! padded to whole blocks.
//!
//! The block size depends on the machine that wrote a file, and the file does not state it. Here it is the attribute
//! `block_size`, which ONNX Runtime lacks; without it, inference works as far as it does not depend on it, but
//! evaluation fails.

mod detour;

// One per line, in alphabetical order.
ops! {
    conv,
    pool,
    reorder_input,
    reorder_output,
    upsample,
}
