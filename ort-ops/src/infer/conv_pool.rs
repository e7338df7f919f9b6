//! The placement of the windows of convolutions and pools, axis by axis.
//!
//! Output element `o` of an axis reads, for each `k < kernel`, the input element
//! `o·stride + k·dilation − pad_begin`, or padding where that is outside.

// collects are bounded: by the rank

use ort_graph::{Dim, Dims, NodeSpec, OpError};
use ort_tensor::{Shape, n_elements};

use crate::infer::Window;

/// Larger windows are rejected: no input is that large, and a file could contain any number.
const MAX_N_TAPS: usize = 1 << 28;

/// How padding is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoPad {
    /// By `pads`.
    #[default]
    NotSet,
    /// So that the output has `⌈input / stride⌉` elements; the odd one is added at the end.
    SameUpper,
    /// So that the output has `⌈input / stride⌉` elements; the odd one is added at the beginning.
    SameLower,
    /// No padding.
    Valid,
}

/// The attributes that convolutions and pools share; one value per spatial axis, where present.
///
/// Source: ONNX operator set, Conv-22 and MaxPool-22.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowAttrs {
    /// How padding is chosen.
    pub auto_pad: AutoPad,
    /// The size of the window; for a convolution, optional and equal to that of its weights.
    pub kernel: Option<Shape>,
    /// The steps between windows, 1 unless given.
    pub strides: Option<Shape>,
    /// The steps inside a window, 1 unless given.
    pub dilations: Option<Shape>,
    /// The padding before each axis, then after each, 0 unless given.
    pub pads: Option<Shape>,
    /// Whether a window may exceed the end.
    pub is_ceil: bool,
}

impl WindowAttrs {
    /// Reads `auto_pad`, `kernel_shape`, `strides`, `pads` and `dilations`.
    ///
    /// # Errors
    /// If a value is negative, or a kernel, stride or dilation is 0.
    pub fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(Self { dilations: read_axes(spec, "dilations", 1)?, ..Self::read_undilated(spec)? })
    }

    /// The same without `dilations`.
    ///
    /// # Errors
    /// If a value is negative, or a kernel or stride is 0.
    pub fn read_undilated(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(Self {
            auto_pad: read_auto_pad(spec)?,
            kernel: read_axes(spec, "kernel_shape", 1)?,
            strides: read_axes(spec, "strides", 1)?,
            pads: read_axes(spec, "pads", 0)?,
            dilations: None,
            is_ceil: false,
        })
    }

    /// The windows of size `kernel` over an input of this spatial shape.
    ///
    /// # Errors
    /// If an attribute is for another number of axes, or a window does not fit once.
    pub fn window(&self, input: &[usize], kernel: &[usize]) -> Result<Window, OpError> {
        let mut window = self.unplaced(kernel)?;
        self.expect_rank("input", input.len(), kernel.len())?;
        window.input = Shape::from_slice(input);
        for (axis, &n) in input.iter().enumerate() {
            let placed = self.axis(&window, axis, n)?;
            window.output[axis] = placed.n_outputs;
            (window.pads_begin[axis], window.pads_end[axis]) = (placed.begin, placed.end);
        }
        Ok(window)
    }

    /// The spatial dimensions of the output, as far as known.
    ///
    /// # Errors
    /// If an attribute is for another number of axes, or a window does not fit once.
    pub fn output_dims(&self, input: &[Dim], kernel: &[Dim]) -> Result<Dims, OpError> {
        self.expect_rank("input", input.len(), kernel.len())?;
        let kernel = self.kernel_dims(kernel);
        let window = self.unplaced(&known_or_one(&kernel))?;
        let dim = |axis: usize| match (&input[axis], &kernel[axis]) {
            (Dim::Known(n), Dim::Known(_)) => {
                Ok(Dim::Known(self.axis(&window, axis, *n)?.n_outputs))
            }
            (dim, kernel) if self.keeps_size(&window, axis, kernel) => Ok(dim.clone()),
            _ => Ok(Dim::Unknown),
        };
        (0..input.len()).map(dim).collect()
    }

    /// The dimensions of the window, from the attribute where those of the weights are not known.
    pub(crate) fn kernel_dims(&self, weights: &[Dim]) -> Dims {
        let given = |axis: usize| self.kernel.as_ref().and_then(|kernel| kernel.get(axis));
        let dim = |(axis, dim): (usize, &Dim)| match (dim, given(axis)) {
            (Dim::Symbol(_) | Dim::Unknown, Some(&given)) => Dim::Known(given),
            _ => dim.clone(),
        };
        weights.iter().enumerate().map(dim).collect()
    }

    /// Whether the output has as many elements along `axis` as the input, whatever their number.
    fn keeps_size(&self, window: &Window, axis: usize, kernel: &Dim) -> bool {
        let is_same = matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let padding = match self.auto_pad {
            AutoPad::NotSet => window.pads_begin[axis].checked_add(window.pads_end[axis]),
            _ => Some(0),
        };
        let is_balanced = kernel.known().is_some() && window.extent(axis).ok() == padding;
        window.strides[axis] == 1 && (is_same || is_balanced)
    }

    /// A window with everything that does not depend on the input; `pads` as stated.
    pub(crate) fn unplaced(&self, kernel: &[usize]) -> Result<Window, OpError> {
        let rank = kernel.len();
        // bounded: rank
        let ones = || Shape::from_elem(1, rank);
        // bounded: rank
        let pads = self.pads.clone().unwrap_or_else(|| Shape::from_elem(0, 2 * rank));
        let strides = self.strides.clone().unwrap_or_else(ones);
        let dilations = self.dilations.clone().unwrap_or_else(ones);
        self.expect_rank("strides", strides.len(), rank)?;
        self.expect_rank("dilations", dilations.len(), rank)?;
        self.expect_rank("pads", pads.len(), 2 * rank)?;
        if let Some(own) = self.kernel.as_ref().filter(|own| own.as_slice() != kernel) {
            let (left, right) = (own.to_vec(), kernel.to_vec());
            return Err(OpError::Shapes { what: "kernel_shape", left, right });
        }
        if n_elements(kernel).is_none_or(|n| n > MAX_N_TAPS) {
            return Err(OpError::TooLarge);
        }
        Ok(Window {
            input: ones(),
            output: ones(),
            kernel: Shape::from_slice(kernel),
            strides,
            dilations,
            pads_begin: Shape::from_slice(&pads[..rank]),
            pads_end: Shape::from_slice(&pads[rank..]),
        })
    }

    fn expect_rank(&self, what: &'static str, found: usize, rank: usize) -> Result<(), OpError> {
        if found == rank {
            return Ok(());
        }
        Err(OpError::Shapes { what, left: vec![found], right: vec![rank] })
    }

    /// Number of outputs and padding of one axis with `n` inputs.
    fn axis(&self, window: &Window, axis: usize, n: usize) -> Result<Placed, OpError> {
        let stride = window.strides[axis];
        let extent = window.extent(axis)?;
        if matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
            let n_outputs = n.div_ceil(stride);
            let last = n_outputs.saturating_sub(1).checked_mul(stride);
            let needed =
                last.and_then(|last| last.checked_add(extent)).and_then(|n| n.checked_add(1));
            let padding = needed.ok_or(OpError::TooLarge)?.saturating_sub(n);
            let (less, more) = (padding / 2, padding - padding / 2);
            let is_upper = self.auto_pad == AutoPad::SameUpper;
            let (begin, end) = if is_upper { (less, more) } else { (more, less) };
            return Ok(Placed { n_outputs, begin, end });
        }
        let is_explicit = self.auto_pad == AutoPad::NotSet;
        let (begin, end) =
            if is_explicit { (window.pads_begin[axis], window.pads_end[axis]) } else { (0, 0) };
        let before_end = n.checked_add(begin).ok_or(OpError::TooLarge)?;
        let padded = before_end.checked_add(end).ok_or(OpError::TooLarge)?;
        let n_outputs = match padded.checked_sub(extent).and_then(|n| n.checked_sub(1)) {
            // A window that does not fit into an empty input reads nothing.
            None if n == 0 => 0,
            // Rounded up, a window that ends less than a stride behind the input is one that starts within it.
            None if self.is_ceil
                && is_explicit
                && before_end > 0
                && extent - padded + 1 < stride =>
            {
                1
            }
            None => {
                let (left, right) = (vec![padded], vec![extent.saturating_add(1)]);
                return Err(OpError::Shapes { what: "padded input and window", left, right });
            }
            Some(room) if self.is_ceil && is_explicit => {
                // The last window must start inside the input or the padding before it.
                let last = room.div_ceil(stride);
                if last * stride >= before_end { last } else { last + 1 }
            }
            Some(room) => room / stride + 1,
        };
        Ok(Placed { n_outputs, begin, end })
    }
}

struct Placed {
    n_outputs: usize,
    begin: usize,
    end: usize,
}

/// Sizes of a window, with 1 for unknown ones.
pub(crate) fn known_or_one(dims: &[Dim]) -> Shape {
    dims.iter().map(|dim| dim.known().unwrap_or(1)).collect()
}

fn read_auto_pad(spec: &NodeSpec<'_>) -> Result<AutoPad, OpError> {
    match spec.string("auto_pad")? {
        None | Some("NOTSET" | "") => Ok(AutoPad::NotSet),
        Some("SAME_UPPER") => Ok(AutoPad::SameUpper),
        Some("SAME_LOWER") => Ok(AutoPad::SameLower),
        Some("VALID") => Ok(AutoPad::Valid),
        Some(found) => Err(OpError::AttributeValue { name: "auto_pad", found: found.to_owned() }),
    }
}

/// An attribute of one value per axis (two for padding), each at least `least`; an empty one counts as absent.
pub(crate) fn read_axes(
    spec: &NodeSpec<'_>,
    name: &'static str,
    least: usize,
) -> Result<Option<Shape>, OpError> {
    let Some(ints) = spec.ints(name)?.filter(|ints| !ints.is_empty()) else { return Ok(None) };
    let value = |&n: &i64| usize::try_from(n).ok().filter(|&n| n >= least);
    match ints.iter().map(value).collect::<Option<Shape>>() {
        Some(values) => Ok(Some(values)),
        None => Err(OpError::AttributeValue { name, found: format!("{ints:?}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attrs(stride: usize, pads: [usize; 2], is_ceil: bool) -> WindowAttrs {
        WindowAttrs {
            strides: Some(Shape::from_elem(stride, 1)),
            pads: Some(Shape::from_slice(&pads)),
            is_ceil,
            ..WindowAttrs::default()
        }
    }

    #[test]
    fn the_last_window_starts_inside_the_input_or_the_padding_before_it() {
        let cases = [
            (5, 2, 2, [0, 0], false, 2),
            (5, 2, 2, [0, 0], true, 3),
            (4, 2, 3, [0, 0], true, 2),
            (2, 1, 3, [0, 0], true, 1),
            (2, 1, 2, [1, 1], true, 2),
            (7, 8, 2, [0, 0], true, 1),
            (5, 9, 6, [0, 1], true, 1),
            (0, 1, 1, [0, 0], false, 0),
        ];
        for (n, kernel, stride, pads, is_ceil, expected) in cases {
            let window = attrs(stride, pads, is_ceil).window(&[n], &[kernel]).unwrap();
            assert_eq!(window.output.as_slice(), [expected], "{n} {kernel} {stride} {pads:?}");
        }
        assert!(attrs(1, [0, 0], false).window(&[2], &[3]).is_err());
    }

    #[test]
    fn the_odd_padding_goes_where_the_name_says() {
        for (auto_pad, begin, end) in [(AutoPad::SameUpper, 0, 1), (AutoPad::SameLower, 1, 0)] {
            let attrs = WindowAttrs { auto_pad, ..WindowAttrs::default() };
            let window = attrs.window(&[4], &[2]).unwrap();
            assert_eq!((window.pads_begin[0], window.pads_end[0]), (begin, end));
            assert_eq!(window.output.as_slice(), [4]);
        }
    }

    #[test]
    fn a_symbol_stays_where_the_size_does() {
        let n = Dim::Symbol("n".into());
        let dims = |attrs: WindowAttrs| {
            attrs.output_dims(std::slice::from_ref(&n), &[Dim::Known(3)]).unwrap()
        };
        assert_eq!(dims(attrs(1, [1, 1], false)).as_slice(), std::slice::from_ref(&n));
        assert_eq!(dims(attrs(2, [1, 1], false)).as_slice(), [Dim::Unknown]);
    }

    #[test]
    fn sizes_that_overflow_are_errors() {
        let huge = usize::MAX / 2;
        assert!(attrs(1, [huge, huge], false).window(&[3], &[3]).is_err());
        let dilations = Some(Shape::from_elem(huge, 1));
        let attrs = WindowAttrs { dilations, ..WindowAttrs::default() };
        assert!(attrs.window(&[3], &[4]).is_err());
    }
}
