//! A small `.onnx` file with free dimensions: a pool over an image, which must be at least as large as the kernel.

/// A message's field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    // One varint of seven bits, or two.
    let length = if length < 0x80 { vec![length] } else { vec![length, 1] };
    [tag(number, 2), length, bytes.to_vec()].concat()
}

/// A message's field of a small number.
fn number(number: u8, value: u16) -> Vec<u8> {
    let [low, high] = [value % 0x80, value / 0x80].map(|it| u8::try_from(it).unwrap());
    [tag(number, 0), vec![low | 0x80, high]].concat()
}

fn tag(number: u8, wire: u8) -> Vec<u8> {
    match number {
        ..16 => vec![(number << 3) | wire],
        _ => vec![(number << 3) | wire | 0x80, number >> 4],
    }
}

/// `y = MaxPool-12 [kernel_shape: [size, size]] (x)`, with x: float[n,1,h,w].
///
/// Source: onnx.proto of ONNX 1.20.
pub(crate) fn model(size: u16) -> Vec<u8> {
    let dim = |dim: &str| field(1, &field(2, dim.as_bytes()));
    let one = field(1, &number(1, 1));
    let shape = [dim("n"), one, dim("h"), dim("w")].concat();
    let tensor = [number(1, 1), field(2, &shape)].concat();
    let x = [field(1, b"x"), field(2, &field(1, &tensor))].concat();
    let y = [field(1, b"y"), field(2, &field(1, &number(1, 1)))].concat();
    let ints = [number(8, size), number(8, size), number(20, 7)].concat();
    let kernel = [field(1, b"kernel_shape"), ints].concat();
    let names = [field(1, b"x"), field(2, b"y"), field(3, b"pool"), field(4, b"MaxPool")].concat();
    let node = [names, field(5, &kernel)].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &x), field(12, &y)].concat();
    [number(1, 8), field(7, &graph), field(8, &number(2, 13))].concat()
}
