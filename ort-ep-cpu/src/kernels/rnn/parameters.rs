//! The weights of one direction, by the gates that are multiplied at once.

use std::ops::Range;

use ort_ep::{Packed, Recipe};
use ort_kernels::gemm_f32::{Matrix, pack_b, packed_b_len, variant};
use ort_ops::ops::rnn::Cell;
use smallvec::SmallVec;

use crate::kernels::Compiler;

/// The weights of a direction.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) groups: SmallVec<[Gates; 2]>,
    /// What is added to the recurrent product of the last gates, if they are reset afterwards.
    pub(super) reset_bias: Vec<f32>,
}

/// Gates that are multiplied at once.
#[derive(Debug)]
pub(super) struct Gates {
    /// Elements of all of them.
    pub(super) width: usize,
    /// `[input, width]`, packed.
    pub(super) w: Packed,
    /// `[hidden, width]`, packed.
    pub(super) r: Packed,
    pub(super) bias: Vec<f32>,
}

impl Parameters {
    /// `None` unless the weights of direction `d` are constant.
    pub(super) fn new(
        compiler: &Compiler<'_>,
        cell: Cell,
        hidden: usize,
        d: usize,
    ) -> Option<Self> {
        let counts: &[usize] = match cell {
            Cell::Simple => &[1],
            Cell::Gru { .. } => &[2, 1],
            Cell::Lstm { .. } => &[4],
        };
        let n: usize = counts.iter().sum::<usize>() * hidden;
        let bias = match compiler.fact(3) {
            Some(_) => {
                compiler.constant(3)?.as_slice::<f32>().ok()?.get(d * 2 * n..(d + 1) * 2 * n)?
            }
            None => &[],
        };
        let (mut groups, mut first) = (SmallVec::new(), 0);
        let is_reset_after = |first| first > 0 && cell == Cell::Gru { linear_before_reset: true };
        for width in counts.iter().map(|count| count * hidden) {
            let sum = |i| match bias.get(i) {
                Some(own) if is_reset_after(first) => *own,
                Some(own) => own + bias[n + i],
                None => 0.0,
            };
            let bias = (first..first + width).map(sum).collect();
            let w = pack(compiler, 1, d, first..first + width)?;
            let r = pack(compiler, 2, d, first..first + width)?;
            groups.push(Gates { width, w, r, bias });
            first += width;
        }
        let reset_bias = bias.get(2 * n - hidden..).map_or(vec![0.0; hidden], <[f32]>::to_vec);
        Some(Self { groups, reset_bias })
    }

    /// The bytes that every step reads.
    pub(super) fn recurrent_bytes(&self) -> usize {
        self.groups.iter().map(|gates| gates.r.bytes().len()).sum()
    }
}

/// `rows` of the matrix of direction `d` at `input`, transposed and packed as a right operand.
fn pack(compiler: &Compiler<'_>, input: usize, d: usize, rows: Range<usize>) -> Option<Packed> {
    let isa = compiler.cpu.isa;
    let &[directions, all, k] = compiler.constant(input)?.shape() else { return None };
    if d >= directions || rows.end > all {
        return None;
    }
    let recipe = Recipe {
        name: "rnn_f32/b",
        parameters: [variant(isa).nr, d, rows.start, rows.end].map(|n| n as u64).to_vec(),
        n_bytes: packed_b_len(isa, k, rows.len()) * size_of::<f32>(),
    };
    compiler.pack(input, &recipe, |w: &[f32], packed| {
        let b = &w[(d * all + rows.start) * k..(d * all + rows.end) * k];
        pack_b(isa, &Matrix::row_major(b, rows.len(), k).transposed(), packed);
    })
}
