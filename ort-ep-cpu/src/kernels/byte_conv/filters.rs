//! The weights of a convolution of bytes, packed for the selected algorithm.

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::depthwise_i8::{
    self, LANES, MAX_PARTS, MAX_TAPS, n_parts, pack_each, pack_shared, packed_len,
};
use ort_kernels::gemm_i8::{Zeros, columns_k, row_masks, row_masks_len, variant};
use ort_kernels::transpose::Transposed;
use ort_tensor::{collected, filled};

use super::{Roles, rows};
use crate::bytes::{flip_to_signed, quantized_values};
use crate::kernels::Compiler;
use crate::pieces::wanted;

/// Constant weights `[filters, channels of a group, taps…]`.
#[derive(Debug)]
pub(super) struct Filters {
    pub(super) form: Form,
    /// The sum of each filter's quantized values as signed bytes, an i32.
    sums: Packed,
    /// The zero point of each filter, flipped likewise.
    pub(super) zeros: Vec<i32>,
    /// The number of quantized values in a filter.
    k: usize,
    /// Terms of a product: those, and zeros that pad channels.
    pub(super) terms: usize,
}

/// How weights are packed, which selects the algorithm.
#[derive(Debug)]
pub(super) enum Form {
    /// Rows of a left operand as [`Columns`](ort_kernels::gemm_i8::Columns) has them, of this many bytes in all, or none
    /// if the constant is such rows; and their masks, if the kernel has any.
    Rows { packed: Packed, len: usize },
    /// The right operand, for rows gathered from a channels-last image.
    Right(Packed),
    /// Depthwise: quantized values minus zero points, each as the sum of `parts` signed bytes.
    Depthwise { packed: Packed, parts: usize, are_channels_last: bool },
}

impl Filters {
    /// Packs the weights; `None` if they are not constant, or have an unsupported shape.
    pub(super) fn compile(
        compiler: &Compiler<'_>,
        roles: &Roles,
        (group, are_channels_last): (usize, bool),
    ) -> Option<Self> {
        let w = compiler.constant(roles.w)?;
        let &[filters, channels, ref kernel @ ..] = w.shape() else { return None };
        let taps = kernel.iter().product::<usize>();
        if !(1..=3).contains(&kernel.len()) || filters == 0 || channels == 0 || taps == 0 {
            return None;
        }
        let flip = flip_to_signed(w.dtype())?;
        let zeros = match compiler.fact(roles.w_zero) {
            None => vec![i32::from(flip.cast_signed())],
            Some(_) => quantized_values(compiler.constant(roles.w_zero)?, flip)?,
        };
        let zeros = match zeros[..] {
            [zero] => filled(zero, filters).ok()?,
            _ if zeros.len() == filters => zeros,
            _ => return None,
        };
        let k = channels * taps;
        let is_depthwise = group > 1 && channels == 1 && taps <= MAX_TAPS;
        let form = match (is_depthwise, are_channels_last) {
            (true, true) if filters != group => return None,
            (true, _) => depthwise(compiler, roles.w, (&zeros, flip), (kernel, are_channels_last))?,
            (false, true) if group > 1 => return None,
            (false, true) => Form::Right(rows::pack(compiler, roles.w, flip)?),
            (false, false) => rows(compiler, (roles.w, flip), group, [filters, channels, taps])?,
        };
        let sums = sums(compiler, roles.w, (filters, k), flip)?;
        let terms = if are_channels_last { k } else { columns_k(channels, taps) };
        Some(Self { form, sums, zeros, k, terms })
    }

    /// The number of filters.
    pub(super) fn len(&self) -> usize {
        self.zeros.len()
    }

    /// The packed weights, unless the constant is read as it is; the masks of rows; and the number of bytes whose sum is a
    /// weight.
    pub(super) fn packed(&self) -> (Option<&[u8]>, &[u8], usize) {
        match &self.form {
            Form::Rows { packed, len } => {
                let (rows, masks) = packed.bytes().split_at(*len);
                (Some(rows).filter(|rows| !rows.is_empty()), masks, 1)
            }
            Form::Right(packed) => (Some(packed.bytes()), &[], 1),
            Form::Depthwise { packed, parts, .. } => (Some(packed.bytes()), &[], *parts),
        }
    }

    /// Whether runs read the packed weights instead of the constant.
    pub(super) fn are_packed(&self) -> bool {
        !matches!(self.form, Form::Rows { len: 0, .. })
    }

    /// Whether images are `[N, …, C]`.
    pub(super) fn are_channels_last(&self) -> bool {
        match self.form {
            Form::Rows { .. } => false,
            Form::Right(_) => true,
            Form::Depthwise { are_channels_last, .. } => are_channels_last,
        }
    }

    /// Whether sums need a correction for the zero points of the weights, by [`correct`](ort_kernels::gemm_i8::correct).
    pub(super) fn has_zeros(&self) -> bool {
        !matches!(self.form, Form::Depthwise { .. }) && self.zeros.iter().any(|&zero| zero != 0)
    }

    /// The initial sum of each filter, without the bias.
    pub(super) fn starts(&self, x_zero: i32) -> impl Iterator<Item = i32> {
        let sums: &[i32] = bytemuck::cast_slice(self.sums.bytes());
        let filters = self.zeros.iter().zip(sums);
        filters.map(move |(&b, &sum)| Zeros { a: x_zero, b }.by_column(self.k, sum))
    }
}

/// The sum of each filter's quantized values.
fn sums(
    compiler: &Compiler<'_>,
    input: usize,
    (filters, k): (usize, usize),
    flip: u8,
) -> Option<Packed> {
    let recipe = Recipe {
        name: "gemm_i8/filter_sums",
        parameters: vec![u64::from(flip)],
        n_bytes: filters * size_of::<i32>(),
    };
    compiler.pack(input, &recipe, |weights: &[u8], sums| {
        let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
        for (sum, filter) in sums.iter_mut().zip(weights.chunks(k)) {
            *sum = filter.iter().map(|&w| i32::from((w ^ flip).cast_signed())).sum();
        }
    })
}

/// Rows of a left operand, and the masks of those of each group.
fn rows(
    compiler: &Compiler<'_>,
    (input, flip): (usize, u8),
    group: usize,
    [filters, channels, taps]: [usize; 3],
) -> Option<Form> {
    let (isa, k) = (compiler.cpu.isa, columns_k(channels, taps));
    // What is read behind the last row.
    let variant = variant(isa, k);
    let slack = if variant.reads_steps() { variant.padded_k(k) - k } else { 0 };
    let len = match flip == 0 && taps == 1 && slack == 0 {
        true => 0,
        false => filters.checked_mul(k)?.checked_add(slack)?,
    };
    let m = filters / group;
    let masks_len = row_masks_len(isa, m, k);
    if len + masks_len == 0 {
        return Some(Form::Rows { packed: Packed::default(), len });
    }
    let parameters = [variant.mr, usize::from(flip), group, len, masks_len];
    let recipe = Recipe {
        name: "gemm_i8/rows",
        // bounded: by their number
        parameters: parameters.map(|parameter| parameter as u64).to_vec(),
        n_bytes: len + group * masks_len,
    };
    let packed = compiler.pack_for_runs(input, &recipe, |weights: &[u8], packed| {
        let (rows, masks) = packed.split_at_mut(len);
        let filters = weights.chunks_exact(channels * taps).zip(rows.chunks_exact_mut(k));
        for (filter, row) in wanted(filters) {
            by_tap(isa, filter, [channels, taps], flip, row);
        }
        if masks_len > 0 {
            let own = if len == 0 { weights } else { &*rows };
            for (own, masks) in own.chunks(m * k).zip(masks.chunks_exact_mut(masks_len)) {
                row_masks(isa, own, k, masks);
            }
        }
    })?;
    Some(Form::Rows { packed, len })
}

/// Writes the weights of a filter by tap to a row of zeros, which remain for missing channels of a quad.
fn by_tap(isa: Isa, filter: &[u8], [channels, taps]: [usize; 2], flip: u8, row: &mut [u8]) {
    let padded = row.len() / taps;
    u8::transpose(isa, [channels, taps], (filter, taps), (row, padded));
    for tap in row.chunks_exact_mut(padded) {
        tap[..channels].iter_mut().for_each(|weight| *weight ^= flip);
    }
}

/// The quantized values of filters minus their zero points, which have 9 bits.
fn centered(values: &[u8], taps: usize, (zeros, flip): (&[i32], u8)) -> Option<Vec<i16>> {
    let weight = |value: u8, zero: i32| i32::from((value ^ flip).cast_signed()) - zero;
    let filters = values.chunks(taps).zip(zeros);
    let weights = filters.flat_map(|(filter, &zero)| {
        filter.iter().map(move |&value| i16::try_from(weight(value, zero)).unwrap_or_default())
    });
    collected(weights).ok()
}

/// Depthwise filters.
fn depthwise(
    compiler: &Compiler<'_>,
    input: usize,
    (zeros, flip): (&[i32], u8),
    (kernel, are_channels_last): (&[usize], bool),
) -> Option<Form> {
    let taps = kernel.iter().product::<usize>();
    let weights = match compiler.constant(input)?.view().as_bytes() {
        Some(values) => Some(centered(values, taps, (zeros, flip))?),
        None => None,
    };
    // If the file has no elements, the number of parts is that of its packed form.
    let known = weights.as_deref().map(n_parts);
    let weights = weights.unwrap_or_default();
    let mut sizes = [1; 3];
    sizes[3 - kernel.len()..].copy_from_slice(kernel);
    let order: Vec<_> = depthwise_i8::taps(sizes).collect(); // bounded: by MAX_TAPS
    let (n_lanes, n_taps) = match are_channels_last {
        true => (zeros.len().next_multiple_of(LANES), order.len()),
        false => (zeros.len(), taps),
    };
    let is_one = zeros.iter().all(|zero| *zero == zeros[0]);
    let by_filter = if is_one { &zeros[..1] } else { zeros };
    let numbers = by_filter.iter().map(|&zero| u64::from(zero.cast_unsigned()));
    let pack = |parts: usize| {
        let layout = [u64::from(are_channels_last), u64::from(flip), parts as u64];
        let recipe = Recipe {
            name: if are_channels_last { "depthwise_i8/pixels_by_column" } else { "depthwise_i8" },
            // bounded: by the filters of an existing constant
            parameters: layout.into_iter().chain(numbers.clone()).collect(),
            n_bytes: n_lanes * packed_len(n_taps, parts),
        };
        compiler.pack_for_runs(input, &recipe, |_: &[u8], packed| {
            if are_channels_last {
                let ordered = weights
                    .chunks(taps)
                    .flat_map(|filter| order.iter().map(|tap| tap.map_or(0, |tap| filter[tap])));
                // bounded: as many as `weights`, and zeros up to the packed length
                return pack_each(&ordered.collect::<Vec<_>>(), n_taps, parts, packed);
            }
            let filters = packed.chunks_exact_mut(packed_len(taps, parts));
            for (filter, packed) in weights.chunks(taps).zip(filters) {
                pack_shared(filter, parts, packed);
            }
        })
    };
    let (packed, parts) = (1..=MAX_PARTS)
        .filter(|parts| known.is_none_or(|known| known == *parts))
        .find_map(|parts| Some((pack(parts)?, parts)))?;
    Some(Form::Depthwise { packed, parts, are_channels_last })
}
