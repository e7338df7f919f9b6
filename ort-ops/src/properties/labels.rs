//! Classical machine learning: mappings of labels and keys.

use ort_graph::Attr;
use ort_tensor::{DType, Map, Tensor, Value};

use super::draw::signed;
use super::features::with_some;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::ml("CategoryMapper", &[1], mapper),
    Property::ml("DictVectorizer", &[1], dict_vectorizer),
    Property::ml("LabelEncoder", &[1, 2, 4], encoder),
    Property::ml("OneHotEncoder", &[1], one_hot),
    Property::ml("ZipMap", &[1], zip_map),
];

/// Keys and values, few of each type, so that some keys are equal; also NaN.
fn few(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Tensor {
    let x = draw.small(dtype, shape);
    if dtype.is_float() { with_some(draw, &x, &Cell::Float(f64::NAN)) } else { x }
}

/// A list as an attribute of its type, if there is one.
fn list(array: &Array, dtype: DType) -> Option<Attr> {
    let tensor = array.to_tensor(dtype);
    match dtype {
        DType::I64 => Some(Attr::Ints(tensor.as_slice().unwrap().to_vec())),
        DType::F32 => Some(Attr::Floats(tensor.as_slice().unwrap().to_vec())),
        DType::String => Some(Attr::Strings(tensor.view().as_strings().unwrap().to_vec())),
        _ => None,
    }
}

/// A string or an int64, as most labels are.
fn label_type(draw: &mut Draw) -> DType {
    draw.pick(&[DType::I64, DType::String])
}

/// Each cell replaced by the value of the last key that is equal, or by the default.
fn looked_up(x: &Array, keys: &Array, values: &Array, default: &Cell) -> Array {
    x.map(|cell| match keys.cells.iter().rposition(|key| key.is(cell)) {
        Some(at) => values.cells[at].clone(),
        None => default.clone(),
    })
}

fn mapper(draw: &mut Draw, dtype: DType) -> Sample {
    let n = draw.below(6);
    let numbers = Array::of(&draw.small(DType::I64, &[n]));
    let names = Array::of(&draw.any(DType::String, &[n]));
    let sample = translated(draw, dtype, &names, &numbers);
    let [names, numbers] = [(&names, DType::String), (&numbers, DType::I64)]
        .map(|(array, dtype)| list(array, dtype).unwrap());
    sample.attr("cats_strings", names).attr("cats_int64s", numbers)
}

/// Names become numbers, and other inputs become names.
fn translated(draw: &mut Draw, dtype: DType, names: &Array, numbers: &Array) -> Sample {
    let shape = draw.shape(0);
    let x = draw.small(dtype, &shape);
    let number = draw.pick(&[None, Some(77)]);
    let name = draw.pick(&[None, Some("none")]);
    let sample = Sample::new(&[&x.clone()], {
        let (names, numbers) = (names.clone(), numbers.clone());
        move || {
            let x = Array::of(&x);
            if dtype == DType::String {
                let default = Cell::Int(number.unwrap_or(-1).into());
                let y = looked_up(&x, &names, &numbers, &default);
                return Expected::exact(DType::I64, y);
            }
            let default = Cell::Text(name.unwrap_or("_Unused").to_owned());
            Expected::exact(DType::String, looked_up(&x, &numbers, &names, &default))
        }
    });
    sample
        .maybe("default_int64", number.map(Attr::Int))
        .maybe("default_string", name.map(|name| Attr::String(name.to_owned())))
}

fn encoder(draw: &mut Draw, dtype: DType) -> Sample {
    const LABELS: [DType; 6] =
        [DType::String, DType::I64, DType::I32, DType::I16, DType::F32, DType::F64];
    let n = draw.below(6);
    if draw.version == 1 {
        let names = Array::of(&draw.any(DType::String, &[n]));
        let places: Vec<_> = (0..n).map(signed).collect();
        let sample = translated(draw, dtype, &names, &Array::ints(&places));
        return sample.attr("classes_strings", list(&names, DType::String).unwrap());
    }
    let shape = draw.shape(0);
    let x = few(draw, dtype, &shape);
    let key_type = if LABELS.contains(&dtype) { dtype } else { DType::I64 };
    let value_type = draw.pick(&LABELS);
    let [keys, values] = [key_type, value_type].map(|dtype| Array::of(&few(draw, dtype, &[n])));
    let (default_name, default_attr, default) = default_of(draw, value_type);
    let is_last_found = draw.version >= 4;
    let key_list = written(draw, "keys", &keys, key_type);
    let value_list = written(draw, "values", &values, value_type);
    let sample = Sample::new(&[&x.clone()], move || {
        let order: Vec<_> = if is_last_found { (0..n).collect() } else { (0..n).rev().collect() };
        let in_order = |array: &Array| array.picked(&[n], |index| vec![order[index[0]]]);
        let y = looked_up(&Array::of(&x), &in_order(&keys), &in_order(&values), &default);
        Expected::exact(value_type, y)
    });
    sample
        .attr(&key_list.0, key_list.1)
        .attr(&value_list.0, value_list.1)
        .maybe(default_name, default_attr)
}

/// A list as an attribute of its type, or as a tensor.
fn written(draw: &mut Draw, name: &str, array: &Array, dtype: DType) -> (String, Attr) {
    let suffix = match dtype {
        DType::String => "strings",
        DType::I64 => "int64s",
        _ => "floats",
    };
    match list(array, dtype).filter(|_| draw.one_in(2)) {
        Some(attr) => (format!("{name}_{suffix}"), attr),
        None => (format!("{name}_tensor"), Attr::Tensor(array.to_tensor(dtype))),
    }
}

/// The default value, and its attribute, if there is one.
fn default_of(draw: &mut Draw, dtype: DType) -> (&'static str, Option<Attr>, Cell) {
    if draw.one_in(2) {
        let shape: &[usize] = if draw.one_in(2) { &[] } else { &[1] };
        let tensor = draw.any(dtype, shape);
        let cell = Array::of(&tensor).cells.remove(0);
        return ("default_tensor", Some(Attr::Tensor(tensor)), cell);
    }
    let is_given = draw.one_in(2);
    let (name, given, cell, default) = match dtype {
        DType::String => {
            let text = |text: &str| Cell::Text(text.to_owned());
            ("default_string", Attr::String("none".to_owned()), text("none"), text("_Unused"))
        }
        DType::I64 => ("default_int64", Attr::Int(77), Cell::Int(77), Cell::Int(-1)),
        DType::F32 => ("default_float", Attr::Float(0.5), Cell::Float(0.5), Cell::Float(0.0)),
        // The other types have a tensor, or nothing.
        DType::F64 => return ("", None, Cell::Float(0.0)),
        _ => return ("", None, Cell::Int(-1)),
    };
    if is_given { (name, Some(given), cell) } else { (name, None, default) }
}

/// A map from some keys of this type to as many values.
fn map(draw: &mut Draw, key_type: DType, values: &Tensor) -> (Array, Value) {
    let names = ["", "a", "b", "ab", "é", "0", "zz"];
    let keys = draw.permutation(7).into_iter().take(values.len());
    let keys: Vec<_> = match key_type {
        DType::String => keys.map(|at| Cell::Text(names[at].to_owned())).collect(),
        _ => keys.map(|at| Cell::Int(signed(at).into())).collect(),
    };
    let keys = Array { shape: vec![keys.len()], cells: keys };
    let map = Map { keys: keys.to_tensor(key_type), values: values.clone() };
    (keys, Value::Map(map))
}

fn dict_vectorizer(draw: &mut Draw, dtype: DType) -> Sample {
    // Keys and values have different types.
    let key_type = match dtype {
        DType::String => DType::I64,
        DType::I64 => DType::String,
        _ => label_type(draw),
    };
    let (n, n_values) = (draw.below(7), draw.below(7));
    let vocabulary = Array::of(&draw.small(key_type, &[n]));
    let values = draw.any(dtype, &[n_values]);
    let (keys, x) = map(draw, key_type, &values);
    let name = if key_type == DType::I64 { "int64_vocabulary" } else { "string_vocabulary" };
    let attr = list(&vocabulary, key_type).unwrap();
    let oracle = move || {
        let y = looked_up(&vocabulary, &keys, &Array::of(&values), &Cell::zero(dtype));
        Expected::exact(dtype, y.reshaped(&[1, n]))
    };
    Sample::of_values(vec![x], oracle).attr(name, attr)
}

fn one_hot(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let key_type = if dtype == DType::String { DType::String } else { DType::I64 };
    let n = 1 + draw.below(5);
    let categories = Array::of(&draw.small(key_type, &[n]));
    let are_known = draw.one_in(3) && matches!(dtype, DType::I64 | DType::String);
    let x = match are_known {
        true => Array::from_fn(&shape, |_| draw.pick(&categories.cells)).to_tensor(dtype),
        // The fractions of floats are ignored.
        false if dtype.is_float() => {
            let x = draw.real(dtype, &shape, 5.0);
            with_some(draw, &x, &Cell::Float(f64::NAN))
        }
        false => draw.small(dtype, &shape),
    };
    let name = if key_type == DType::I64 { "cats_int64s" } else { "cats_strings" };
    let attr = list(&categories, key_type).unwrap();
    let zeros = if are_known { Some(0) } else { draw.pick(&[None, Some(1)]) };
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let place = |cell: &Cell| {
            let same = |category: &Cell| match (cell, category) {
                (Cell::Float(x), category) => x.trunc() == category.float(),
                _ => cell.is(category),
            };
            categories.cells.iter().rposition(same)
        };
        let y = Array::from_fn(&[&x.shape[..], &[n]].concat(), |index| {
            let (&at, index) = index.split_last().unwrap();
            Cell::Float(if place(x.at(index)) == Some(at) { 1.0 } else { 0.0 })
        });
        Expected::exact(DType::F32, y)
    });
    sample.attr(name, attr).maybe("zeros", zeros.map(Attr::Int))
}

fn zip_map(draw: &mut Draw, dtype: DType) -> Sample {
    let n = 1 + draw.below(5);
    let is_vector = draw.one_in(3);
    let n_rows = if is_vector { 1 } else { draw.dim() };
    let shape = if is_vector { vec![n] } else { vec![n_rows, n] };
    let x = draw.small(dtype, &shape);
    let key_type = label_type(draw);
    let labels = Array::of(&draw.small(key_type, &[n]));
    let name = if key_type == DType::I64 { "classlabels_int64s" } else { "classlabels_strings" };
    let attr = list(&labels, key_type).unwrap();
    let sample = Sample::new(&[&x.clone()], move || {
        let rows = Array::of(&x).reshaped(&[n_rows, n]);
        // Each label once, with its last index, in ascending order.
        let is_last = |&at: &usize| labels.cells[at + 1..].iter().all(|l| *l != labels.cells[at]);
        let mut columns: Vec<_> = (0..n).filter(is_last).collect();
        columns.sort_by(|&a, &b| labels.cells[a].total_order(&labels.cells[b]));
        let keys = labels.picked(&[columns.len()], |index| vec![columns[index[0]]]);
        let map = |row: usize| {
            let values = rows.picked(&keys.shape, |index| vec![row, columns[index[0]]]);
            let (keys, values) = (keys.to_tensor(key_type), values.to_tensor(dtype));
            Value::Map(Map { keys, values })
        };
        vec![Expected::Value(Value::Sequence((0..n_rows).map(map).collect()))]
    });
    sample.attr(name, attr)
}
