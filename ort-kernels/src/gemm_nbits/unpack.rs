//! Weights as the right operand of a float product: panels are dequantized as needed.

use super::{Panel, WORD, Weights};
use crate::gemm::{Panels, Slice, each_panel};

impl Panels for Weights<'_> {
    fn write(&self, slice: &Slice, panels: &mut [f32]) {
        assert_eq!(slice.nr, self.format.nr, "weights are packed for another instruction set");
        each_panel(slice, panels, |slice, panel| {
            unpack(slice.isa, &self.panel(slice.column), slice.k.start, panel);
        });
    }
}

per_isa! {
    /// Dequantizes weights starting at row `first`, to `[k][nr]`.
    fn unpack<FMA>(panel: &Panel<'_>, first: usize, to: &mut [f32]) {
        let format = panel.format;
        let nr = format.nr;
        let words = panel.quantized.as_chunks::<WORD>().0;
        let (mask, middle) = ((1_u32 << format.bits) - 1, format.middle() as f32);
        for (k, to) in (first..).zip(to.chunks_exact_mut(nr)) {
            let (word, i) = (k / format.step(), k % format.step());
            let words = &words[word * nr..][..nr];
            let shift = 8 * (i % WORD) + format.bits * (i / WORD);
            let quantized = words.iter().map(|word| (u32::from_le_bytes(*word) >> shift) & mask);
            let block = k / format.block * nr;
            let scales = &panel.scales[block..][..nr];
            match (panel.table, panel.zeros.get(block..block + nr)) {
                (None, None) => {
                    for ((to, value), scale) in to.iter_mut().zip(quantized).zip(scales) {
                        *to = (value.cast_signed() as f32 - middle) * scale;
                    }
                }
                (None, Some(zeros)) => {
                    let by_column = zeros.iter().zip(scales);
                    for ((to, value), (zero, scale)) in to.iter_mut().zip(quantized).zip(by_column) {
                        *to = (value.cast_signed() as f32 - middle - zero) * scale;
                    }
                }
                (Some(table), zeros) => {
                    // Looking up takes one element at a time, what follows does not.
                    for (to, value) in to.iter_mut().zip(quantized) {
                        *to = table[value as usize % table.len()];
                    }
                    for (to, zero) in to.iter_mut().zip(zeros.unwrap_or_default()) {
                        *to -= zero;
                    }
                    for (to, scale) in to.iter_mut().zip(scales) {
                        *to *= scale;
                    }
                }
            }
        }
    }
}
