//! Moves Transposes to where they cancel.

mod axes;
mod broadcast;
mod cost;
mod form;
mod handlers;
mod images;
mod lists;
mod perm;
mod region;
mod reshape;
mod rewrite;
mod versions;

// One per line.
passes! {
    pointwise_conv_fusion,
    nhwc_transformer,
    transpose_optimizer,
}
