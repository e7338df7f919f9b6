//! Regions of every size, within images and beyond them, and the errors of invalid ones.

use ort_graph::Attr;
use ort_tensor::{Number, Tensor};

use crate::case::{Case, bytes, exact, floats, within};

/// Regions in images of these sizes, some of which exceed the image.
fn regions<T: Number>(n: usize, [height, width]: [usize; 2], image: Option<usize>) -> Tensor {
    let number = |i: usize, j: usize, size: usize| {
        let unit = (i * 7919 + j * 104_729) % 97;
        T::from_f64((unit as f64 / 60.0 - 0.2) * size as f64)
    };
    let region = |i: usize| {
        let corners = [number(i, 0, width), number(i, 1, height)];
        let ends = [number(i, 2, 2 * width), number(i, 3, 2 * height)];
        let image = image.map(|n_images| T::from_f64((i % n_images) as f64));
        image.into_iter().chain(corners).chain(ends)
    };
    let numbers: Vec<T> = (0..n).flat_map(region).collect();
    Tensor::from_slice(&[n, numbers.len() / n.max(1)], &numbers).unwrap()
}

fn images(n: usize, n_images: usize) -> Tensor {
    let images: Vec<i64> = (0..n).map(|i| i64::try_from(i % n_images).unwrap()).collect();
    Tensor::from_slice(&[n], &images).unwrap()
}

#[test]
fn bins_equal_the_operators() {
    let shapes = [[2, 3, 13, 17], [1, 1, 1, 1], [1, 40, 30, 20], [3, 70, 9, 40]];
    for (shape, n) in shapes.iter().zip([5, 3, 30, 1]) {
        let size = [shape[2], shape[3]];
        for (mode, ratio) in ["avg", "max"].iter().flat_map(|mode| [0, 2].map(|r| (mode, r))) {
            let case = || {
                Case::new("RoiAlign", 16)
                    .attr("mode", Attr::String((*mode).into()))
                    .attr("sampling_ratio", Attr::Int(ratio))
                    .attr("output_height", Attr::Int(5))
                    .attr("output_width", Attr::Int(3))
            };
            let given = || images(n, shape[0]);
            let single = case().input(floats(shape)).input(regions::<f32>(n, size, None));
            single.input(given()).check(within(2e-6));
            let double = case().input(bytes(shape, f64::from));
            double.input(regions::<f64>(n, size, None)).input(given()).check(within(1e-12));
        }
        let case = || Case::new("MaxRoiPool", 1).attr("pooled_shape", Attr::Ints(vec![4, 3]));
        let single = regions::<f32>(n, size, Some(shape[0]));
        case().input(floats(shape)).input(single).check(exact);
        let double = regions::<f64>(n, size, Some(shape[0]));
        case().input(bytes(shape, f64::from)).input(double).check(exact);
    }
}

#[test]
fn errors_name_the_invalid_operand() {
    let align = || Case::new("RoiAlign", 16).input(floats(&[1, 2, 4, 4]));
    let of_image = |image: i64| Tensor::from_slice(&[1], &[image]).unwrap();
    let region = regions::<f32>(1, [4, 4], None);
    let error = align().input(region.clone()).input(of_image(1)).error().to_string();
    assert!(error.contains("batch_indices"), "{error}");
    let large = Tensor::from_slice(&[1, 4], &[0.0, 0.0, f32::MAX, 1.0]).unwrap();
    let error = align().input(large).input(of_image(0)).error().to_string();
    assert!(error.contains("too large"), "{error}");
    let pool = Case::new("MaxRoiPool", 1).attr("pooled_shape", Attr::Ints(vec![2, 2]));
    let region = Tensor::from_slice(&[1, 5], &[-1_f32, 0.0, 0.0, 1.0, 1.0]).unwrap();
    let error = pool.input(floats(&[1, 2, 4, 4])).input(region).error().to_string();
    assert!(error.contains("images"), "{error}");
}
