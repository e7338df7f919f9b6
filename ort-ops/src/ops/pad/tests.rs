//! Borders of every mode, alone and on two axes.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};
use proptest::prelude::*;

use crate::case::{Case, tensor};

fn pad(mode: &str, x: &[i32], pads: [i64; 2]) -> Option<Vec<i32>> {
    let case = Case::new("Pad", 25).attr("mode", Attr::String(mode.into()));
    let y = case.tensor(&[tensor(&[x.len()], x), tensor(&[2], &pads)]).ok()?;
    Some(y.as_slice::<i32>().unwrap().to_vec())
}

#[test]
fn every_mode_has_its_border() {
    let cases: [(&str, [i64; 2], Option<&[i32]>); 16] = [
        ("constant", [1, 2], Some(&[0, 1, 2, 3, 0, 0])),
        ("constant", [-1, 1], Some(&[2, 3, 0])),
        ("constant", [-1, -2], Some(&[])),
        ("constant", [-2, -2], None),
        ("constant", [i64::MIN, 0], None),
        ("constant", [i64::MAX, i64::MAX], None),
        ("reflect", [2, 1], Some(&[3, 2, 1, 2, 3, 2])),
        ("reflect", [5, 0], Some(&[2, 1, 2, 3, 2, 1, 2, 3])),
        ("reflect", [-1, 3], Some(&[2, 3, 2, 3, 2])),
        ("reflect", [-2, 2], Some(&[3, 3, 3])),
        ("reflect", [-3, 2], None),
        ("edge", [2, 1], Some(&[1, 1, 1, 2, 3, 3])),
        ("edge", [-1, 1], Some(&[2, 3, 3])),
        ("wrap", [2, 1], Some(&[2, 3, 1, 2, 3, 1])),
        ("wrap", [4, 0], Some(&[3, 1, 2, 3, 1, 2, 3])),
        ("mirror", [0, 0], None),
    ];
    for (mode, pads, expected) in cases {
        assert_eq!(pad(mode, &[1, 2, 3], pads).as_deref(), expected, "{mode} {pads:?}");
    }
}

#[test]
fn axes_may_be_chosen_and_the_value_given() {
    let x = tensor(&[2, 2], &[1_f32, 2.0, 3.0, 4.0]);
    let y = Case::new("Pad", 18).tensor(&[
        x.clone(),
        tensor(&[2], &[1_i64, 0]),
        Tensor::scalar(f32::NAN),
        tensor(&[1], &[-1_i32]),
    ]);
    let nan = f32::NAN;
    assert_eq!(y, Ok(tensor(&[2, 3], &[nan, 1.0, 2.0, nan, 3.0, 4.0])));
    let old = Case::new("Pad", 2)
        .attr("pads", Attr::Ints(vec![0, 0, 1, 0]))
        .attr("value", Attr::Float(7.0))
        .tensor(std::slice::from_ref(&x));
    assert_eq!(old, Ok(tensor(&[3, 2], &[1_f32, 2.0, 3.0, 4.0, 7.0, 7.0])));
    let microsoft = Case::new("Pad", 1).domain("com.microsoft");
    let y = microsoft.tensor(&[x, tensor(&[1, 4], &[-1_i64, 0, 0, -1])]);
    assert_eq!(y, Ok(tensor(&[1, 1], &[3_f32])));
}

#[test]
fn scalars_strings_packed_and_empty_tensors_have_borders() {
    let scalar = Case::new("Pad", 25).tensor(&[Tensor::scalar(1_u8), tensor::<i64>(&[0], &[])]);
    assert_eq!(scalar, Ok(Tensor::scalar(1_u8)));
    let words = Tensor::from_strings(&[1], vec!["a".into()]).unwrap();
    let y = Case::new("Pad", 25).tensor(&[words, tensor(&[2], &[0_i64, 1])]);
    assert_eq!(y, Ok(Tensor::from_strings(&[2], vec!["a".into(), String::new()]).unwrap()));
    let nibbles = Tensor::from_bytes(DType::I4, &[2], vec![0x21].into()).unwrap();
    let edge = Case::new("Pad", 25).attr("mode", Attr::String("edge".into()));
    let y = edge.tensor(&[nibbles, tensor(&[2], &[1_i64, 1])]);
    assert_eq!(y, Ok(Tensor::from_bytes(DType::I4, &[4], vec![0x11, 0x22].into()).unwrap()));
    let empty = tensor::<u8>(&[0, 2], &[]);
    let pads = tensor(&[4], &[1_i64, 0, 0, 0]);
    let y = Case::new("Pad", 25).tensor(&[empty.clone(), pads.clone()]);
    assert_eq!(y, Ok(tensor(&[1, 2], &[0_u8, 0])));
    assert!(edge.tensor(&[empty, pads]).is_err());
}

proptest! {
    #[test]
    fn two_axes_are_padded_like_each_alone(
        shape in (1_usize..4, 1_usize..4), front in 0_i64..6, back in -1_i64..6,
        mode in prop::sample::select(vec!["constant", "reflect", "edge", "wrap"])
    ) {
        let (h, w) = shape;
        prop_assume!(back >= 0 || (h > 1 && w > 1));
        let data: Vec<i32> = (1..).take(h * w).collect();
        let case = Case::new("Pad", 25).attr("mode", Attr::String(mode.into()));
        let pads = tensor(&[4], &[front, front, back, back]);
        let y = case.tensor(&[tensor(&[h, w], &data), pads]).unwrap();
        let indices = |n: usize| {
            let indices: Vec<i32> = (1..).take(n).collect();
            pad(mode, &indices, [front, back]).unwrap()
        };
        let mut expected = vec![];
        for row in indices(h) {
            for column in indices(w) {
                let at = usize::try_from((row - 1) * i32::try_from(w).unwrap() + column - 1);
                expected.push(if row * column == 0 { 0 } else { data[at.unwrap()] });
            }
        }
        prop_assert_eq!(y.as_slice::<i32>().unwrap(), &expected[..]);
    }
}
