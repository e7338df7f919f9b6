//! Cast, CastLike and BitCast, from every type to every type.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::bounds;
use super::{Array, Cell, Draw, Expected, Property, Sample};
use crate::ops::old_cast::NAMES as OLD_NAMES;

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("BitCast", &[26], bit_cast),
    Property::onnx("Cast", &[1, 6, 19, 24, 28], |draw, dtype| {
        if draw.version < 6 {
            let &(name, to) = draw.pick(&OLD_NAMES.iter().collect::<Vec<_>>());
            return cast(draw, dtype, to).attr("to", Attr::String(name.to_owned()));
        }
        let to = target(draw);
        cast(draw, dtype, to).attr("to", Attr::Int(to.onnx().into()))
    }),
    Property::onnx("CastLike", &[15, 19, 25], |draw, dtype| {
        let to = target(draw);
        let like = draw.any(to, &[2]);
        cast(draw, dtype, to).input(1, like)
    }),
];

/// The same bytes, as any type of as many bits.
fn bit_cast(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.any(dtype, &shape);
    let others: Vec<_> =
        DType::ALL.iter().copied().filter(|other| other.bits() == dtype.bits()).collect();
    let to = draw.pick(&others);
    let sample = Sample::new(&[&x.clone()], move || {
        let bytes = x.view().as_bytes().unwrap().to_vec();
        let y = Tensor::from_bytes(to, x.shape(), bytes.into()).unwrap();
        vec![Expected::Value(y.into())]
    });
    sample.attr("to", Attr::Int(to.onnx().into()))
}

fn target(draw: &mut Draw) -> DType {
    let types = DType::ALL.iter().copied();
    draw.pick(&types.filter(|dtype| kind(*dtype) != Kind::Complex).collect::<Vec<_>>())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Bool,
    /// Any width.
    Integer,
    /// Any width.
    Float,
    Complex,
}

fn kind(dtype: DType) -> Kind {
    use DType::{Bool, Complex64, Complex128, I2, I4, String, U2, U4};
    match dtype {
        String => Kind::Text,
        Bool => Kind::Bool,
        Complex64 | Complex128 => Kind::Complex,
        I2 | I4 | U2 | U4 => Kind::Integer,
        _ if dtype.is_integer() => Kind::Integer,
        _ => Kind::Float,
    }
}

/// The rounding to types that cannot represent every value.
#[derive(Clone, Copy)]
struct Rounding {
    saturates: bool,
    /// Of float8e8m0.
    mode: &'static str,
}

fn cast(draw: &mut Draw, from: DType, to: DType) -> Sample {
    let shape = draw.shape(0);
    let x = source(draw, (from, to), &shape);
    let (saturates, saturate) = if draw.version < 19 { (true, None) } else { draw.flag(true) };
    let modes = [None, Some("up"), Some("down"), Some("nearest")];
    let mode = if draw.version < 24 { None } else { draw.pick(&modes) };
    let rounding = Rounding { saturates, mode: mode.unwrap_or("up") };
    let operand = x.clone();
    let sample = Sample::new(&[&x], move || {
        let y = Array::of(&operand)
            .map(|x| if from == to { x.clone() } else { convert(x, to, rounding) });
        Expected::exact(to, y)
    });
    let mode = mode.map(|mode| Attr::String(mode.to_owned()));
    sample.maybe("saturate", saturate).maybe("round_mode", mode)
}

/// Values whose conversion the standard defines.
fn source(draw: &mut Draw, (from, to): (DType, DType), shape: &[usize]) -> Tensor {
    match (kind(from), kind(to)) {
        (Kind::Text, of_y) => {
            let whole = ["0", "1", "3"];
            let texts: &[&str] = match of_y {
                Kind::Text => &["", "é", "INF"],
                Kind::Float if to.is_float() => {
                    &["1.5", "-2", "1e2", "+INF", "-inf", "nan", " 0.25 "]
                }
                _ => &whole[usize::from(to == DType::F8E8M0)..],
            };
            let mut cell = |_: &[usize]| Cell::Text(draw.pick(texts).to_owned());
            Array::from_fn(shape, &mut cell).to_tensor(from)
        }
        (Kind::Float, Kind::Text) => {
            let all = [0.5, 1.0, 2.0, -1.25, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            let values = if from.is_float() { &all[..] } else { &all[..3] };
            Array::from_fn(shape, |_| Cell::Float(draw.pick(values))).to_tensor(from)
        }
        (Kind::Bool, _) if to == DType::F8E8M0 => Draw::map(&draw.any(from, shape), one_instead),
        (Kind::Float | Kind::Integer, _) => {
            let x = if draw.one_in(2) { draw.small(from, shape) } else { draw.wild(from, shape) };
            Draw::map(&x, |x| if is_defined(x, to) { x.clone() } else { one_instead(x) })
        }
        (Kind::Bool | Kind::Complex, _) => draw.any(from, shape),
    }
}

fn one_instead(x: &Cell) -> Cell {
    match x {
        Cell::Float(_) => Cell::Float(1.0),
        Cell::Int(_) => Cell::Int(1),
        _ => Cell::Bool(true),
    }
}

/// Whether the standard defines this conversion.
fn is_defined(x: &Cell, to: DType) -> bool {
    match (x, to) {
        (Cell::Int(x), DType::F8E8M0) => *x > 0,
        (Cell::Float(x), DType::F8E8M0) => x.is_nan() || *x > 0.0,
        (Cell::Float(x), DType::F4E2M1) => !x.is_nan(),
        (Cell::Float(x), to) if kind(to) == Kind::Integer => {
            let (least, most) = bounds(to);
            // Not-a-number is in no range.
            x.trunc() >= least as f64 && x.trunc() < most as f64 + 1.0
        }
        _ => true,
    }
}

fn convert(x: &Cell, to: DType, rounding: Rounding) -> Cell {
    match (x, kind(to)) {
        (Cell::Text(text), Kind::Text) => Cell::Text(text.clone()),
        (x, Kind::Text) => Cell::Text(text(x)),
        (Cell::Text(text), _) => convert(&parsed(text), to, rounding),
        (Cell::Bool(x), Kind::Integer) => Cell::Int((*x).into()),
        (Cell::Bool(x), _) => convert(&Cell::Int((*x).into()), to, rounding),
        (Cell::Int(x), Kind::Bool) => Cell::Bool(*x != 0),
        (Cell::Int(x), Kind::Integer) => Cell::Int(*x),
        // Rounded once.
        (Cell::Int(x), _) if matches!(to, DType::F32 | DType::F16) => {
            Cell::Float((*x as f32).into())
        }
        (Cell::Int(x), _) => Cell::Float(narrow(*x as f64, to, rounding)),
        (Cell::Float(x), Kind::Bool) => Cell::Bool(*x != 0.0),
        (Cell::Float(x), Kind::Integer) => Cell::whole(x.trunc()),
        (Cell::Float(x), _) => Cell::Float(narrow(*x, to, rounding)),
        (Cell::Complex(..), _) => panic!("{x:?} cannot be converted"),
    }
}

fn text(x: &Cell) -> String {
    match x {
        Cell::Float(x) if x.is_infinite() => if *x > 0.0 { "INF" } else { "-INF" }.to_owned(),
        Cell::Float(x) => x.to_string(),
        Cell::Int(x) => x.to_string(),
        Cell::Bool(x) => i32::from(*x).to_string(),
        Cell::Text(_) | Cell::Complex(..) => panic!("{x:?} is no number"),
    }
}

fn parsed(text: &str) -> Cell {
    let text = text.trim();
    text.parse().map_or_else(|_| Cell::Float(text.parse().unwrap()), Cell::Int)
}

/// A float rounded to a type that cannot represent it; other types round on conversion.
fn narrow(x: f64, to: DType, rounding: Rounding) -> f64 {
    let largest = match to {
        DType::F8E4M3Fn => 448.0,
        DType::F8E4M3Fnuz => 240.0,
        DType::F8E5M2 | DType::F8E5M2Fnuz => 57344.0,
        DType::F8E8M0 => return power_of_two(x, rounding),
        DType::F4E2M1 => return nearest_of_four_bits(x),
        _ => return x,
    };
    if rounding.saturates { x.clamp(-largest, largest) } else { x }
}

/// A power of two next to a number above zero.
fn power_of_two(x: f64, rounding: Rounding) -> f64 {
    if x.is_nan() {
        return x;
    }
    let below = libm::ilogb(x);
    let fraction = x / libm::scalbn(1.0, below);
    let is_up = match rounding.mode {
        "up" => fraction > 1.0,
        "down" => false,
        _ => fraction >= 1.5,
    };
    match below.saturating_add(i32::from(is_up)) {
        exponent if rounding.saturates => libm::scalbn(1.0, exponent.clamp(-127, 127)),
        exponent @ -127..=127 => libm::scalbn(1.0, exponent),
        _ => f64::NAN,
    }
}

/// The nearest of eight magnitudes; halfway between two, the one with even index.
fn nearest_of_four_bits(x: f64) -> f64 {
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let distance = |i: usize| (x.abs().min(6.0) - magnitudes[i]).abs();
    let nearest =
        (0..8).min_by(|&i, &j| distance(i).total_cmp(&distance(j)).then((i % 2).cmp(&(j % 2))));
    magnitudes[nearest.unwrap()].copysign(x)
}
