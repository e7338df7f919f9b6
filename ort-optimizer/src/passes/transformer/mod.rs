//! What networks of attention are made of: activations, norms, attention.

// One a line.
passes! {
    gelu_fusion,
}
