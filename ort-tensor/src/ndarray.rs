//! `ndarray` views in and out, without copies.

use ndarray::{ArrayView, ArrayViewD, Dimension, IxDyn};

use crate::element::Element;
use crate::{Tensor, TensorError, TensorView};

impl<'a> TensorView<'a> {
    /// The view as an array of `T`; nothing is copied.
    ///
    /// # Errors
    /// If the elements are not of type `T`.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayViewD<'a, T>, TensorError> {
        let data = self.as_slice::<T>()?;
        // The lengths agree: an invariant of the view.
        ArrayView::from_shape(IxDyn(self.shape()), data)
            .map_err(|_| TensorError::TooLarge { shape: self.shape().into() })
    }

    /// A view of an array in standard (row-major, contiguous) layout; nothing is copied.
    /// `None` for any other layout: [`Tensor::from_ndarray`] copies those.
    pub fn from_ndarray<T: Element, D: Dimension>(
        array: &'a ndarray::ArrayRef<T, D>,
    ) -> Option<Self> {
        TensorView::from_slice(array.shape(), array.as_slice()?).ok()
    }
}

impl Tensor {
    /// A copy of an array of any layout, in row-major order.
    ///
    /// # Errors
    /// If the array is too large.
    pub fn from_ndarray<T: Element, D: Dimension>(
        array: &ndarray::ArrayRef<T, D>,
    ) -> Result<Self, TensorError> {
        match TensorView::from_ndarray(array) {
            Some(view) => view.to_tensor(),
            None => {
                let data: Vec<T> = array.iter().copied().collect();
                Tensor::from_slice(array.shape(), &data)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn standard_layout_is_borrowed_and_others_are_copied() {
        let a = array![[1_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let view = TensorView::from_ndarray(&a).unwrap();
        assert_eq!(view.as_slice::<f32>().unwrap().as_ptr(), a.as_ptr());
        let transposed = a.t();
        assert!(TensorView::from_ndarray(&transposed).is_none());
        let copy = Tensor::from_ndarray(&transposed).unwrap();
        assert_eq!(copy.as_slice::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(copy.view().to_ndarray::<f32>().unwrap(), transposed.into_dyn());
    }
}
