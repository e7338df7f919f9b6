//! Arithmetic on shapes, and data that moves by shapes alone.

// One a line.
passes! {
    shape_folding,
    reshape_fusion,
}
