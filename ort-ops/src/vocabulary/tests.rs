//! Tests of lookups, against a search from the end of the list.

use super::*;
use crate::case::tensor;

#[test]
fn numbers_are_found_by_value() {
    let floats = Vocabulary::new(tensor(&[3], &[f32::NAN, -0.0, 0.5]).view()).unwrap();
    let x = tensor(&[4], &[0.0, 0.5, -f64::NAN, 0.1]);
    assert_eq!(floats.find(x.view()), Ok(vec![Some(1), Some(2), Some(0), None]));
    let integers = Vocabulary::new(tensor(&[3], &[-1_i64, 7, 7]).view()).unwrap();
    assert_eq!(integers.find(tensor(&[2], &[7_i8, -1]).view()), Ok(vec![Some(2), Some(0)]));
    assert!(integers.find(x.view()).is_err() && floats.find(tensor(&[0], &[0; 0]).view()).is_err());
}

#[test]
fn integers_are_found_in_tables_and_hash_maps() {
    const ENDS: [i64; 2] = [i64::MIN, i64::MAX];
    let cases: [(&[i64], bool); 9] = [
        (&[], true),
        (&[5], true),
        (&[-3, 4, -3, 0], true),
        (&[0, 263], true),
        (&[0, 264], false),
        (&[i64::MIN, i64::MIN + 2], true),
        (&[i64::MAX, i64::MAX - 2], true),
        (&ENDS, false),
        (&[-1, i64::MAX], false),
    ];
    for (keys, is_table) in cases {
        let found = Vocabulary::new(tensor(&[keys.len()], keys).view()).unwrap();
        assert_eq!(matches!(found.places, Places::Table(_)), is_table, "{keys:?}");
        let near = keys.iter().chain(&ENDS).chain(&[0, 300, -300]);
        let x: Vec<i64> = near.flat_map(|&x| [x, x.wrapping_add(1), x.wrapping_sub(1)]).collect();
        let y = x.iter().map(|x| keys.iter().rposition(|key| key == x)).collect();
        assert_eq!(found.find(tensor(&[x.len()], &x).view()), Ok(y), "{keys:?}");
    }
}

#[test]
fn floats_are_found_in_tables_and_hash_maps() {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    const EXACT: f64 = 2_251_799_813_685_248.0;
    let cases: [(&[f64], bool); 11] = [
        (&[], true),
        (&[-0.0, 7.0, 0.0], true),
        (&[-2.0, f64::NAN, 3.0, -f64::NAN], true),
        (&[f64::NAN], true),
        (&[EXACT - 1.0], true),
        (&[EXACT], false),
        (&[1.0, 0.5], false),
        (&[TWO_63], false),
        (&[-TWO_63, 1.0, f64::NAN], false),
        (&[f64::INFINITY, f64::NEG_INFINITY], false),
        (&[0.0, 1e9], false),
    ];
    let special =
        [f64::NAN, -0.0, TWO_63, -TWO_63, 1e300, f64::INFINITY, f64::NEG_INFINITY, 1e-310];
    for (keys, is_table) in cases {
        let found = Vocabulary::new(tensor(&[keys.len()], keys).view()).unwrap();
        assert_eq!(matches!(found.places, Places::Table(_)), is_table, "{keys:?}");
        let near = keys.iter().chain(&special);
        let x: Vec<f64> = near.flat_map(|&x| [x, x + 1.0, x - 1.0, x + 0.5]).collect();
        let is = |x: f64, key: f64| x == key || (x.is_nan() && key.is_nan());
        let y = x.iter().map(|&x| keys.iter().rposition(|&key| is(x, key))).collect();
        assert_eq!(found.find(tensor(&[x.len()], &x).view()), Ok(y), "{keys:?}");
    }
}

#[test]
fn blocks_follow_each_other() {
    let n = 3 * BLOCK + 5;
    let x: Vec<i64> = (0..100).cycle().take(n).collect();
    let keys = Vocabulary::new(tensor(&[100], &x[..100]).view()).unwrap();
    let mut y = vec![0; n];
    keys.find_each(tensor(&[n], &x).view(), &mut y, |y, place| *y = place).unwrap();
    assert!(y.iter().zip(&x).all(|(&y, &x)| i64::try_from(y) == Ok(x)));
    let truncated = tensor(&[5], &[7.9, -0.9, f64::NAN, -1.0, 1e300]);
    let mut found = Vec::new();
    let find = |places: &[usize]| {
        found.extend_from_slice(places);
        Ok(())
    };
    keys.find_truncated(truncated.view(), find).unwrap();
    assert_eq!(found, [7, 0, 100, 100, 100]);
}

#[test]
fn strings_are_found_by_their_bytes() {
    let strings = |words: &[&str]| {
        Tensor::from_strings(&[words.len()], words.iter().map(|&w| w.into()).collect()).unwrap()
    };
    let keys = Vocabulary::new(strings(&["a", "", "ä", "a"]).view()).unwrap();
    let found = keys.find(strings(&["", "a", "b", "ä"]).view());
    assert_eq!(found, Ok(vec![Some(1), Some(3), None, Some(2)]));
    assert!(keys.find(tensor(&[1], &[1_i64]).view()).is_err());
    let numbers = Vocabulary::new(tensor(&[1], &[1_i64]).view()).unwrap();
    assert!(numbers.find(strings(&[]).view()).is_err());
    assert!(numbers.find(tensor(&[1], &[1_u64]).view()).is_err());
}
