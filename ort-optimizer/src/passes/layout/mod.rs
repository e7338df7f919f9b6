//! Other layouts of images in memory.

// One per line.
passes! {
    nchwc_transformer,
}
