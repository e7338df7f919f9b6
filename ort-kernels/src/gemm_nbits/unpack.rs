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
        match panel.format.nr {
            8 => unpack_rows::<8>(panel, first, to),
            16 => unpack_rows::<16>(panel, first, to),
            _ => unpack_rows::<32>(panel, first, to),
        }
    }
}

#[inline(always)]
fn unpack_rows<const NR: usize>(panel: &Panel<'_>, first: usize, to: &mut [f32]) {
    let format = panel.format;
    let words = panel.quantized.as_chunks::<WORD>().0.as_chunks::<NR>().0;
    let (scales, zeros) = (panel.scales.as_chunks::<NR>().0, panel.zeros.as_chunks::<NR>().0);
    let (mask, middle) = ((1_u32 << format.bits) - 1, format.middle() as f32);
    for (k, to) in (first..).zip(to.as_chunks_mut::<NR>().0) {
        let (word, i) = (&words[k / format.step()], k % format.step());
        let shift = 8 * (i % WORD) + format.bits * (i / WORD);
        let scale = &scales[k / format.block];
        for j in 0..NR {
            let value = (u32::from_le_bytes(word[j]) >> shift) & mask;
            to[j] = match panel.table {
                None => value.cast_signed() as f32 - middle,
                Some(table) => table[value as usize % table.len()],
            };
        }
        if let Some(zeros) = zeros.get(k / format.block) {
            (0..NR).for_each(|j| to[j] -= zeros[j]);
        }
        (0..NR).for_each(|j| to[j] *= scale[j]);
    }
}
