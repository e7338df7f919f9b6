//! Contents of tensors: `float[2] [0.5, 1]`, `int64[3] fill 7`, `bool[] true`.

// collects are bounded: text is written by passes and tests

use std::fmt;

use ort_tensor::{DType, Element, Shape, Tensor, TensorError, TensorView, n_elements, with_dtype};

use super::cursor::{Cursor, TextError, TextErrorKind};

/// The limit of `fill`; tests need no more.
const MAX_BYTES: usize = 1 << 28;

/// Prints contents of up to `max_elements`, and a hash of longer ones.
pub(super) fn print(
    f: &mut fmt::Formatter<'_>,
    tensor: &Tensor,
    max_elements: usize,
) -> fmt::Result {
    let view = tensor.view();
    write!(f, "{}[", tensor.dtype())?;
    print_list(f, tensor.shape(), ",")?;
    f.write_str("] ")?;
    match view.len() {
        1 if tensor.shape().is_empty() => f.write_str(&elements(view, 1)[0]),
        n if n > 1 && is_uniform(view) => write!(f, "fill {}", elements(view, 1)[0]),
        n if n > max_elements => write!(f, "#{:016x}", hash(view)),
        n => {
            f.write_str("[")?;
            print_list(f, &elements(view, n), ", ")?;
            f.write_str("]")
        }
    }
}

pub(super) fn print_list(
    f: &mut fmt::Formatter<'_>,
    items: &[impl fmt::Display],
    separator: &str,
) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { separator })?;
    }
    Ok(())
}

/// Reads contents.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Tensor, TextError> {
    let dtype = dtype(cursor)?;
    let shape: Shape = cursor.list("[", "]", |c| c.digits("a dimension"))?.into();
    parse_elements(cursor, dtype, &shape)
}

pub(super) fn dtype(cursor: &mut Cursor<'_>) -> Result<DType, TextError> {
    let start = *cursor;
    let dtype = cursor.word().and_then(|word| word.parse().ok());
    dtype.map_or_else(
        || {
            *cursor = start;
            cursor.expected("an element type")
        },
        Ok,
    )
}

fn parse_elements(
    cursor: &mut Cursor<'_>,
    dtype: DType,
    shape: &[usize],
) -> Result<Tensor, TextError> {
    let mut start = *cursor;
    let is_fill = cursor.eat_word("fill");
    let elements = if cursor.sees("[") {
        cursor.list("[", "]", |cursor| element(cursor, dtype))?
    } else if cursor.sees("#") {
        return Err(cursor.error(TextErrorKind::Elided));
    } else {
        vec![element(cursor, dtype)?]
    };
    build(dtype, shape, &elements, is_fill).map_err(|error| start.error(error))
}

/// One element: its text, or its bytes.
enum Item {
    String(String),
    Bytes(Vec<u8>),
}

fn build(
    dtype: DType,
    shape: &[usize],
    elements: &[Item],
    is_fill: bool,
) -> Result<Tensor, TensorError> {
    let too_large = TensorError::TooLarge { shape: shape.to_vec() };
    let n = n_elements(shape).filter(|&n| n <= MAX_BYTES / 16).ok_or(too_large)?;
    let elements: Vec<&Item> = match elements {
        // bounded: text is written by passes and tests
        [element] if is_fill => vec![element; n],
        elements => elements.iter().collect(),
    };
    let strings: Vec<String> = elements.iter().filter_map(|item| item.string()).collect();
    let bytes: Vec<u8> = elements.iter().flat_map(|item| item.bytes()).copied().collect();
    match dtype {
        DType::String => Tensor::from_strings(shape, strings),
        dtype if dtype.is_packed() => {
            let mut tensor = Tensor::zeros(dtype, shape)?;
            if bytes.len() != n {
                let (expected, found) = (n, bytes.len());
                let shape = shape.to_vec();
                return Err(TensorError::Length { dtype, shape, expected, found });
            }
            tensor.view_mut().pack(&bytes)?;
            Ok(tensor)
        }
        dtype => Tensor::from_bytes(dtype, shape, bytes.into()),
    }
}

impl Item {
    fn string(&self) -> Option<String> {
        match self {
            Item::String(string) => Some(string.clone()),
            Item::Bytes(_) => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Item::String(_) => &[],
            Item::Bytes(bytes) => bytes,
        }
    }
}

fn element(cursor: &mut Cursor<'_>, dtype: DType) -> Result<Item, TextError> {
    if dtype == DType::String {
        return cursor.string().map(Item::String);
    }
    let mut start = *cursor;
    let text = cursor.until(|c| c.is_whitespace() || ",])".contains(c)).unwrap_or_default();
    match element_bytes(dtype, text) {
        Some(bytes) => Ok(Item::Bytes(bytes)),
        None => Err(start.error(TextErrorKind::Element { element: text.to_owned(), dtype })),
    }
}

/// The bytes of one element; of a packed type, its unpacked bits.
fn element_bytes(dtype: DType, text: &str) -> Option<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("0x") {
        let bits = u128::from_str_radix(hex, 16).ok()?;
        let fits = 128 - bits.leading_zeros() <= u32::try_from(dtype.bits()).ok()?;
        return fits.then(|| bits.to_le_bytes()[..dtype.bits().div_ceil(8)].to_vec());
    }
    if dtype == DType::Bool {
        return text.parse().ok().map(|value: bool| vec![u8::from(value)]);
    }
    with_dtype!(dtype, number, T => {
        text.parse::<T>().ok().map(|value| bytemuck::bytes_of(&value).to_vec())
    }, else => None)
}

/// The first `n` elements: as a number where it reads back as the same bits, else as bits.
fn elements(view: TensorView<'_>, n: usize) -> Vec<String> {
    let dtype = view.dtype();
    if let Ok(strings) = view.as_strings() {
        return strings[..n].iter().map(|string| format!("{string:?}")).collect();
    }
    let width = dtype.word_bytes().unwrap_or(1);
    let unpacked = view.unpacked();
    let words =
        unpacked.as_deref().ok().or(view.as_bytes()).unwrap_or_default().chunks_exact(width);
    let texts = words.take(n).map(|word| {
        let number = number(dtype, word);
        let reads_back = |text: &String| element_bytes(dtype, text).as_deref() == Some(word);
        number.filter(reads_back).unwrap_or_else(|| bits(word))
    });
    texts.collect()
}

fn number(dtype: DType, word: &[u8]) -> Option<String> {
    if dtype == DType::Bool {
        return Some((word != [0]).to_string());
    }
    fn text<T: Element>(word: &[u8]) -> String {
        let text = format!("{:?}", bytemuck::pod_read_unaligned::<T>(word));
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    }
    with_dtype!(dtype, number, T => Some(text::<T>(word)), else => None)
}

fn bits(word: &[u8]) -> String {
    let mut bytes = [0; 16];
    bytes[..word.len()].copy_from_slice(word);
    format!("0x{:x}", u128::from_le_bytes(bytes))
}

fn is_uniform(view: TensorView<'_>) -> bool {
    fn all_equal<T: PartialEq>(mut items: impl Iterator<Item = T>) -> bool {
        let first = items.next();
        items.all(|item| Some(item) == first)
    }
    match (view.as_strings(), view.unpacked(), view.as_bytes()) {
        (Ok(strings), ..) => all_equal(strings.iter()),
        (_, Ok(unpacked), _) => all_equal(unpacked.iter()),
        (_, _, Some(bytes)) => {
            all_equal(bytes.chunks_exact(view.dtype().word_bytes().unwrap_or(1)))
        }
        _ => false,
    }
}

/// FNV-1a, 64 bits: distinguishes tensors in a listing.
fn hash(view: TensorView<'_>) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let start = 0xcbf2_9ce4_8422_2325;
    match view.as_strings() {
        Ok(strings) => {
            strings.iter().flat_map(|s| s.as_bytes().iter().chain(&[0])).fold(start, step)
        }
        Err(_) => view.as_bytes().unwrap_or_default().iter().fold(start, step),
    }
}
