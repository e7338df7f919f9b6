//! Shape arithmetic, and reshapes.

// One per line.
passes! {
    shape_folding,
    reshape_fusion,
    batch_transpose_fusion,
}
