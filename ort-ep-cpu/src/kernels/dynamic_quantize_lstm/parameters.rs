//! The parameters of one direction.

use ort_ops::ops::rnn::{Activation, Direction, Rnn};
use ort_tensor::{collected, filled};

use crate::bytes::Right;
use crate::kernels::Compiler;

/// The parameters of a direction.
#[derive(Debug)]
pub(super) struct OneDirection {
    pub(super) is_reverse: bool,
    pub(super) activations: [Activation; 3],
    pub(super) w: Right,
    pub(super) r: Right,
    /// The factor of the state's zero point, one per column.
    pub(super) less: Vec<i32>,
    /// Scales of the columns of `w` and of `r`.
    pub(super) factors: [Vec<f32>; 2],
    pub(super) bias: Vec<f32>,
    /// One zero per column.
    pub(super) zeros: Vec<i32>,
}

impl OneDirection {
    /// The parameters of direction `d`; `None` if they are not all constant, or have
    /// unexpected shapes.
    pub(super) fn compile(
        compiler: &Compiler<'_>,
        layer: &Rnn,
        [n, width]: [usize; 2],
        d: usize,
    ) -> Option<Self> {
        let r = Right::compile_one(compiler, 2, 11, d)?;
        let mut activations = [Activation::Tanh; 3];
        activations.copy_from_slice(layer.activations.get(d * 3..(d + 1) * 3)?);
        Some(Self {
            is_reverse: layer.direction == Direction::Reverse || d == 1,
            activations,
            w: Right::compile_one(compiler, 1, 9, d)?,
            less: r.less()?,
            r,
            factors: [factors(compiler, 8, [n, width], d)?, factors(compiler, 10, [n, width], d)?],
            bias: bias(compiler, [n, width], d)?,
            zeros: filled(0, width).ok()?,
        })
    }
}

/// The scales of direction `d`, `[directions]` or `[directions, width]`, one per column.
fn factors(
    compiler: &Compiler<'_>,
    input: usize,
    [n, width]: [usize; 2],
    d: usize,
) -> Option<Vec<f32>> {
    let constant = compiler.constant(input)?;
    let scales = constant.as_slice::<f32>().ok()?;
    match *constant.shape() {
        [directions] if directions == n => filled(scales[d], width).ok(),
        [directions, m] if [directions, m] == [n, width] => {
            collected(scales[d * width..(d + 1) * width].iter().copied()).ok()
        }
        _ => None,
    }
}

/// The sum of both biases of direction `d`.
fn bias(compiler: &Compiler<'_>, [n, width]: [usize; 2], d: usize) -> Option<Vec<f32>> {
    if compiler.fact(3).is_none() {
        return filled(0.0, width).ok();
    }
    let constant = compiler.constant(3).filter(|bias| bias.shape() == [n, 2 * width])?;
    let own = &constant.as_slice::<f32>().ok()?[d * 2 * width..(d + 1) * 2 * width];
    let (of_w, of_r) = own.split_at(width);
    collected(of_w.iter().zip(of_r).map(|(w, r)| w + r)).ok()
}
