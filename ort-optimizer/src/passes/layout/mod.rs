//! Other layouts of images in memory.

// One a line.
passes! {
    nchwc_transformer,
}
