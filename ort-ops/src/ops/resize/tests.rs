//! Tests of `resize`.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor, f16};

use crate::case::{Case, tensor};

fn text(value: &str) -> Attr {
    Attr::String(value.into())
}

fn resize(mode: &str, coordinates: &str) -> Case {
    Case::new("Resize", 19)
        .attr("mode", text(mode))
        .attr("coordinate_transformation_mode", text(coordinates))
}

fn by_scale(case: &Case, x: Tensor, scales: &[f32]) -> Result<Tensor, String> {
    let scales = tensor(&[scales.len()], scales);
    let values = case.run_optional(&[Some(x), None, Some(scales)])?;
    Ok(values[0].as_tensor().unwrap().clone())
}

fn to_size(case: &Case, x: Tensor, sizes: &[i64]) -> Result<Tensor, String> {
    let sizes = tensor(&[sizes.len()], sizes);
    let values = case.run_optional(&[Some(x), None, None, Some(sizes)])?;
    Ok(values[0].as_tensor().unwrap().clone())
}

#[test]
fn an_axis_is_sampled_where_the_coordinates_say() {
    let cases: [(&str, f32, &[f32]); 6] = [
        ("half_pixel", 2.0, &[0.0, 0.25, 0.75, 1.25, 1.75, 2.0]),
        ("asymmetric", 2.0, &[0.0, 0.5, 1.0, 1.5, 2.0, 2.0]),
        ("align_corners", 5.0 / 3.0, &[0.0, 0.5, 1.0, 1.5, 2.0]),
        ("pytorch_half_pixel", 0.4, &[0.0]),
        ("half_pixel", 0.4, &[0.75]),
        ("half_pixel_symmetric", 0.4, &[1.0]),
    ];
    for (coordinates, scale, expected) in cases {
        let x = tensor(&[3], &[0_f64, 1.0, 2.0]);
        let y = by_scale(&resize("linear", coordinates), x, &[scale]).unwrap();
        assert_eq!(y.shape(), [expected.len()], "{coordinates} by {scale}");
        for (y, expected) in y.as_slice::<f64>().unwrap().iter().zip(expected) {
            // Coordinates below 8 are exact to four units of 2^-21 in float32.
            let bound = 4.0 * f64::from(2_f32.powi(-21));
            assert!((y - f64::from(*expected)).abs() <= bound, "{coordinates} by {scale}: {y}");
        }
    }
}

#[test]
fn ties_fall_as_the_nearest_mode_says() {
    let cases: [(&str, &[i8]); 4] = [
        ("round_prefer_floor", &[0, 0, 1, 1]),
        ("round_prefer_ceil", &[0, 1, 1, 1]),
        ("floor", &[0, 0, 1, 1]),
        ("ceil", &[0, 1, 1, 1]),
    ];
    for (mode, expected) in cases {
        let case = resize("nearest", "asymmetric").attr("nearest_mode", text(mode));
        let y = by_scale(&case, tensor(&[2], &[0_i8, 1]), &[2.0]);
        assert_eq!(y, Ok(tensor(&[4], expected)), "{mode}");
    }
}

#[test]
fn before_version_eleven_growing_floors_and_shrinking_ceils() {
    let x = tensor(&[1, 4], &[0_i32, 1, 2, 3]);
    let cases: [(f32, &[i32]); 2] = [(1.5, &[0, 0, 1, 2, 2, 3]), (0.75, &[0, 2, 3])];
    for (scale, expected) in cases {
        for case in [Case::new("Resize", 10), Case::new("Upsample", 9)] {
            let y = case.tensor(&[x.clone(), tensor(&[2], &[1.0, scale])]);
            assert_eq!(y, Ok(tensor(&[1, expected.len()], expected)));
        }
    }
    let old = Case::new("Upsample", 7).attr("scales", Attr::Floats(vec![2.0, 1.0]));
    let y = old.tensor(&[tensor(&[1, 1], &[f16::ONE])]);
    assert_eq!(y, Ok(tensor(&[2, 1], &[f16::ONE; 2])));
}

#[test]
fn every_type_can_be_picked_from() {
    for &dtype in DType::ALL {
        let x = Tensor::zeros(dtype, &[1, 2]).unwrap();
        let y = to_size(&resize("nearest", "half_pixel"), x, &[3, 5]);
        assert_eq!(y, Ok(Tensor::zeros(dtype, &[3, 5]).unwrap()), "{dtype}");
    }
    let strings = Tensor::zeros(DType::String, &[1]).unwrap();
    assert!(to_size(&resize("linear", "half_pixel"), strings, &[2]).is_err());
}

#[test]
fn integers_are_cut_off_by_linear_and_rounded_by_cubic_sampling() {
    let x = || tensor(&[2], &[0_u8, 255]);
    let y = by_scale(&resize("linear", "half_pixel"), x(), &[2.0]);
    assert_eq!(y, Ok(tensor(&[4], &[0_u8, 63, 191, 255])));
    // The cubic overshoots both ends: −26.9, 57.8, 197.2 and 281.9.
    let y = by_scale(&resize("cubic", "half_pixel"), x(), &[2.0]);
    assert_eq!(y, Ok(tensor(&[4], &[0_u8, 58, 197, 255])));
}

#[test]
fn sizes_may_keep_the_aspect_ratio() {
    let cases = [("stretch", [4, 5]), ("not_larger", [3, 5]), ("not_smaller", [4, 8])];
    for (policy, shape) in cases {
        let case = resize("nearest", "half_pixel").attr("keep_aspect_ratio_policy", text(policy));
        let x = Tensor::zeros(DType::F32, &[2, 4]).unwrap();
        assert_eq!(to_size(&case, x, &[4, 5]).unwrap().shape(), shape, "{policy}");
    }
}

#[test]
fn outside_the_region_is_the_extrapolation_value() {
    for mode in ["nearest", "linear", "cubic"] {
        let case = resize(mode, "tf_crop_and_resize")
            .attr("extrapolation_value", Attr::Float(9.0))
            .attr("axes", Attr::Ints(vec![-1]));
        let inputs = [
            tensor(&[1, 3], &[0_f32, 1.0, 2.0]),
            tensor(&[2], &[0.5_f32, 1.5]),
            tensor(&[1], &[1_f32]),
        ];
        assert_eq!(case.tensor(&inputs), Ok(tensor(&[1, 3], &[1_f32, 2.0, 9.0])), "{mode}");
    }
}

#[test]
fn antialiasing_sees_all_that_an_output_covers() {
    let case = resize("linear", "half_pixel").attr("antialias", Attr::Int(1));
    let y = by_scale(&case, tensor(&[4], &[0_f64, 0.0, 8.0, 8.0]), &[0.5]);
    // Weights 1 3 3 1, with elements beyond the border clamped.
    assert_eq!(y, Ok(tensor(&[2], &[1_f64, 7.0])));
}

#[test]
fn invalid_scales_and_sizes_are_rejected() {
    let case = resize("nearest", "half_pixel");
    let x = || tensor(&[2], &[0_f32, 1.0]);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(by_scale(&case, x(), &[scale]).is_err(), "{scale}");
    }
    assert!(by_scale(&case, x(), &[1.0, 1.0]).is_err());
    assert!(to_size(&case, x(), &[-1]).is_err());
    let empty = || Tensor::zeros(DType::F32, &[0]).unwrap();
    assert!(to_size(&case, empty(), &[1]).is_err());
    assert_eq!(by_scale(&case, empty(), &[2.0]), Ok(empty()));
}
