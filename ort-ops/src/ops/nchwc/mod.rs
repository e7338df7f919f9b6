//! The operators of com.microsoft.nchwc, whose activations and filters lie in NCHWc
//! (see [`blocked`](crate::blocked)). Shapes are those of the plain operators, with channels
//! padded to whole blocks.
//!
//! How many channels a block has is a property of the machine that wrote a file, and the file does
//! not state it. Here it is the attribute `block_size`, which ONNX Runtime does not have; without
//! it everything can be inferred that does not depend on it, but nothing evaluated.

mod detour;

// One a line, in alphabetical order.
ops! {
    conv,
    pool,
    reorder_input,
    reorder_output,
    upsample,
}
