//! CastMap: the values of a map as a row.

use ort_graph::Attr;
use ort_tensor::{DType, Map, Value};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::ml("CastMap", &[1], cast_map)];

fn cast_map(draw: &mut Draw, dtype: DType) -> Sample {
    let to = draw.pick(&[None, Some("TO_FLOAT"), Some("TO_INT64"), Some("TO_STRING")]);
    let width = draw.one_in(2).then(|| 1 + draw.below(8));
    let n = draw.below(7);
    // Negative keys are not allowed in a sparse row.
    let least = if width.is_some() { 0 } else { -5 };
    let keys: Vec<i64> =
        draw.permutation(12).into_iter().take(n).map(|key| signed(key) + least).collect();
    let is_whole = to == Some("TO_INT64");
    let values = match dtype {
        DType::String => {
            Array::from_fn(&[n], |_| Cell::Text(number(draw, is_whole))).to_tensor(dtype)
        }
        DType::F32 => Array::from_fn(&[n], |_| float(draw)).to_tensor(dtype),
        _ => draw.any(dtype, &[n]),
    };
    let map = Map { keys: Array::ints(&keys).to_tensor(DType::I64), values: values.clone() };
    let oracle = move || {
        let values: Vec<_> = Array::of(&values)
            .cells
            .iter()
            .map(|value| cast(value, to.unwrap_or("TO_FLOAT")))
            .collect();
        let (row_type, nothing) = match to {
            Some("TO_INT64") => (DType::I64, Cell::Int(0)),
            Some("TO_STRING") => (DType::String, Cell::Text("0.f".to_owned())),
            _ => (DType::F32, Cell::Float(0.0)),
        };
        let mut in_order: Vec<_> = (0..n).collect();
        in_order.sort_by_key(|&at| keys[at]);
        let y = Array::from_fn(&[1, width.unwrap_or(n)], |index| match width {
            None => values[in_order[index[1]]].clone(),
            Some(_) => {
                let place = keys.iter().position(|&key| key == signed(index[1]));
                place.map_or(nothing.clone(), |at| values[at].clone())
            }
        });
        Expected::exact(row_type, y)
    };
    let form = if width.is_some() { Some("SPARSE") } else { draw.pick(&[None, Some("DENSE")]) };
    let text = |text: &str| Attr::String(text.to_owned());
    Sample::of_values(vec![Value::Map(map)], oracle)
        .maybe("cast_to", to.map(text))
        .maybe("map_form", form.map(text))
        .maybe("max_map", width.map(|width| Attr::Int(signed(width))))
}

/// A number whose six decimals are exact, or not a finite number.
fn float(draw: &mut Draw) -> Cell {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30];
    Cell::Float(match draw.one_in(6) {
        true => draw.pick(&special),
        false => Cell::Int(draw.int(-99, 99).into()).float() / 8.0,
    })
}

/// A number as text, possibly with spaces around it.
fn number(draw: &mut Draw, is_whole: bool) -> String {
    let texts = ["0", "-7", " 12", "3 ", "9007199254740993", "1.5", "-0.25", "1e3", "inf"];
    draw.pick(&texts[..if is_whole { 5 } else { texts.len() }]).to_owned()
}

fn cast(value: &Cell, to: &str) -> Cell {
    match (value, to) {
        (Cell::Text(text), "TO_FLOAT") => Cell::Float(text.trim().parse::<f32>().unwrap().into()),
        (Cell::Text(text), "TO_INT64") => Cell::Int(text.trim().parse().unwrap()),
        (Cell::Float(value), "TO_STRING") => Cell::Text(decimal(*value)),
        (Cell::Float(value), "TO_INT64") => match *value {
            value if value.is_nan() => Cell::Int(0),
            value if value > 1e18 => Cell::Int(i64::MAX.into()),
            value if value < -1e18 => Cell::Int(i64::MIN.into()),
            value => Cell::whole(value.trunc()),
        },
        _ => value.clone(),
    }
}

/// What C's `%f` prints, digit by digit.
fn decimal(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    let digits = Cell::whole(value.abs().trunc()).int();
    let millionths = Cell::whole(value.abs().fract() * 1e6).int();
    format!("{sign}{digits}.{millionths:06}")
}
