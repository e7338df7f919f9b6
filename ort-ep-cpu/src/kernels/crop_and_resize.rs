//! CropAndResize of every float type: threads share the channels of the boxes.

// collects are bounded: there is room for them

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::ops::microsoft::crop_and_resize::{CropAndResize, Place};
use ort_tensor::{DType, Inputs, Number, TensorError, with_dtype, with_room};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of a result, in multiply-adds.
const COST: usize = 128;

#[derive(Debug)]
struct CropAndResizeKernel {
    op: CropAndResize,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) =
        (compiler.op::<CropAndResize>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let kernel = || Box::new(CropAndResizeKernel { op, dtype }) as Box<dyn Kernel>;
    Ok(dtype.is_float().then(kernel))
}

impl Kernel for CropAndResizeKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let is_valid = with_dtype!(self.dtype, float,
            T => self.compute::<T>(io)?, else => return Err(KernelError::ForeignState));
        // Reports what is invalid.
        if is_valid { Ok(()) } else { Ok(self.op.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "crop_and_resize"
    }
}

/// The places of all boxes along the axes of an image.
struct Places {
    /// For each box, those of the rows of its crop.
    rows: Vec<Option<Place>>,
    columns: Vec<Option<Place>>,
}

impl CropAndResizeKernel {
    /// Returns whether the operands are valid and the result is not empty.
    fn compute<T: Number>(&self, io: &mut Io<'_, '_>) -> Result<bool, KernelError> {
        let Some(([n, c, height, width], crop)) = sizes(io.inputs) else { return Ok(false) };
        let images = io.inputs.tensor(2)?.as_slice::<i32>()?;
        let image = |roi: usize| usize::try_from(images[roi]).ok().filter(|&image| image < n);
        if (0..images.len()).any(|roi| image(roi).is_none()) {
            return Ok(false);
        }
        let (x, rois) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let (x, rois) = (x.as_slice::<T>()?, rois.as_slice::<T>()?);
        let Places { rows, columns } = self.places(rois, [height, width], crop)?;
        let [crop_height, crop_width] = crop;
        let shape = [images.len(), c, crop_height, crop_width];
        let y = io.outputs[0].tensor(T::DTYPE, &shape)?.into_slice::<T>()?;
        let lines = Rows { len: crop_width, cost: crop_width.saturating_mul(COST) };
        lines.for_each(io.threads, y, |start, y| {
            for (line, y) in (start / crop_width..).zip(y.chunks_exact_mut(crop_width)) {
                let (plane, row) = (line / crop_height, line % crop_height);
                let (roi, channel) = (plane / c, plane % c);
                let Some(image) = image(roi) else { return };
                let x = &x[(image * c + channel) * height * width..][..height * width];
                let columns = &columns[roi * crop_width..][..crop_width];
                self.op.row((x, width), rows[roi * crop_height + row], columns, y);
            }
        });
        Ok(true)
    }

    fn places<T: Number>(
        &self,
        rois: &[T],
        [height, width]: [usize; 2],
        [crop_height, crop_width]: [usize; 2],
    ) -> Result<Places, TensorError> {
        let (n, is_double) = (rois.len() / 4, self.dtype == DType::F64);
        let room = |len: usize| with_room(n.saturating_mul(len));
        let (mut rows, mut columns) = (room(crop_height)?, room(crop_width)?);
        for corners in rois.as_chunks::<4>().0 {
            let [top, left, bottom, right] = corners.map(Number::to_f64);
            rows.extend(self.op.places([top, bottom], height, crop_height, is_double));
            columns.extend(self.op.places([left, right], width, crop_width, is_double));
        }
        Ok(Places { rows, columns })
    }
}

/// The shape of the images and the size of a crop, unless they are invalid or one is 0.
fn sizes(inputs: Inputs<'_>) -> Option<([usize; 4], [usize; 2])> {
    let (x, rois) = (inputs.tensor(0).ok()?, inputs.tensor(1).ok()?);
    let x: [usize; 4] = x.shape().try_into().ok()?;
    let images = inputs.tensor(2).ok()?;
    let is_valid = *rois.shape() == [images.len(), 4] && images.shape().len() == 1;
    let size: [i32; 2] = inputs.tensor(3).ok()?.as_slice::<i32>().ok()?.try_into().ok()?;
    let [crop_height, crop_width] = size.map(|size| usize::try_from(size).unwrap_or(0));
    let has_all = !x.contains(&0) && !images.is_empty() && crop_height > 0 && crop_width > 0;
    (is_valid && has_all).then_some((x, [crop_height, crop_width]))
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize], number: impl Fn(usize) -> f64) -> Tensor {
        let numbers: Vec<T> =
            (0..n_elements(shape).unwrap()).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &numbers).unwrap()
    }

    fn check<T: Number>(x: &[usize], n_rois: usize, size: [i32; 2]) {
        // Some boxes reach outside the image.
        let corners = |i: usize| (i * 7919 % 31) as f64 / 25.0 - 0.1;
        let n = i32::try_from(x[0]).unwrap().max(1);
        let images: Vec<i32> = (0..n_rois).map(|i| i32::try_from(i).unwrap() % n).collect();
        for mode in ["bilinear", "nearest"] {
            Case::new("CropAndResize", 1)
                .domain("com.microsoft")
                .attr("mode", Attr::String(mode.into()))
                .attr("extrapolation_value", Attr::Float(-1.5))
                .input(numbers::<T>(x, |i| (i * 7919 % 251) as f64 - 100.0))
                .input(numbers::<T>(&[n_rois, 4], corners))
                .input(Tensor::from_slice(&[n_rois], &images).unwrap())
                .weight(Tensor::from_slice(&[2], &size).unwrap())
                .check(exact);
        }
    }

    #[test]
    fn crops_are_those_of_eval() {
        let cases: [(&[usize], usize, [i32; 2]); 6] = [
            (&[2, 3, 9, 11], 5, [4, 7]),
            (&[1, 1, 1, 1], 3, [1, 1]),
            (&[3, 40, 33, 35], 4, [14, 14]),
            (&[1, 2, 7, 5], 2, [1, 9]),
            (&[1, 0, 7, 5], 2, [2, 2]),
            (&[1, 2, 7, 5], 0, [2, 2]),
        ];
        for (x, n_rois, size) in cases {
            check::<f32>(x, n_rois, size);
            check::<f64>(x, n_rois, size);
            check::<f16>(x, n_rois, size);
            check::<bf16>(x, n_rois, size);
        }
    }
}
