//! Random networks on quantized images.

use std::fmt::Write as _;

use proptest::prelude::*;

/// Nodes that make the image `y@` from `$a`, and `$b` where it has the same shape. Every image but
/// that of a global pool is `[2, 4, 5, 6]` or `[2, 8, 5, 6]`.
const FORMS: &[&str] = &[
    "y@ = QLinearConv-10 [pads: [1, 1, 1, 1]] ($a, s, z, w3, s, wz, s, z)",
    "y@ = QLinearConv-10 ($a, s, z, w1, ws, wzs, s, z, bias)",
    "y@ = QLinearConv-10 [group: 4, pads: [1, 1, 1, 1]] ($a, s, z, d3, s, wz, s, z)",
    "y@ = com.microsoft:QLinearConv-1 [channels_last: 0] ($a, s, z, w1, s, wz, s, z)",
    "y@ = com.microsoft:QLinearAdd-1 ($a, s, z, $b, s, z, s, z)",
    "y@ = com.microsoft:QLinearMul-1 ($a, s, z, c, s, z, s, z)",
    "y@ = com.microsoft:QLinearSigmoid-1 ($a, s, z, s, z)",
    "y@ = MaxPool-12 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]] ($a)",
    "y@ = com.microsoft:QLinearAveragePool-1 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]] ($a, s, z, s, z)",
    "k@ = com.microsoft:QLinearConcat-1 [axis: 1] (s, z, $a, s, z, $b, s, z)
  y@ = QLinearConv-10 (k@, s, z, w8, s, wz, s, z)",
    "g@ = com.microsoft:QLinearGlobalAveragePool-1 [channels_last: 0] ($a, s, z, s, z)
  y@ = com.microsoft:QLinearMul-1 ($a, s, z, g@, s, z, s, z)",
    "f@ = DequantizeLinear-13 ($a, s, z) e@ = Relu-14 (f@) y@ = QuantizeLinear-13 (e@, s, z)",
    "f@ = DequantizeLinear-13 ($a, s, z) e@ = BatchNormalization-15 (f@, ns, nb, nm, nv)
  y@ = QuantizeLinear-13 (e@, s, z)",
    "t@ = Transpose-13 [perm: [0, 2, 3, 1]] ($a) r@ = Slice-13 (t@, zero, four, last)
  y@ = Transpose-13 [perm: [0, 3, 1, 2]] (r@)",
];

/// The text of a graph.
pub(super) fn network() -> impl Strategy<Value = String> {
    let node = (0..FORMS.len(), any::<[u8; 2]>());
    (prop::collection::vec(node, 1..8), any::<bool>()).prop_map(|(nodes, is_flat)| {
        let mut text = String::new();
        let mut images = vec!["x".to_owned()];
        for (i, (form, picks)) in nodes.into_iter().enumerate() {
            let pick = |at: usize| {
                let back = usize::from(picks[at]) % images.len().min(3);
                images[images.len() - 1 - back].as_str()
            };
            let form = FORMS[form].replace('@', &i.to_string());
            let form = form.replace("$a", pick(0)).replace("$b", pick(1));
            writeln!(text, "  {form}").unwrap();
            images.push(format!("y{i}"));
        }
        let last = images.last().map_or("x", String::as_str);
        let end = match is_flat {
            true => format!("  out = Flatten-13 ({last})\n"),
            false => format!("  out = Identity-14 ({last})\n"),
        };
        format!("graph(x: uint8[2,4,5,6]) -> (out) {{{}{text}{end}}}", constants())
    })
}

fn constants() -> String {
    let mut text = String::from(
        "
  s = const float[] 0.5
  z = const uint8[] 3
  wz = const int8[] 0
  ws = const float[4] [0.5, 0.25, 1, 2]
  wzs = const int8[4] fill 0
  bias = const int32[4] [-3, 2, 0, 7]
  ns = const float[4] [1, 0.7, -0.3, 2]
  nb = const float[4] [0.1, -3, 2, 0]
  nm = const float[4] [5, 0.3, -1, 4]
  nv = const float[4] [1, 0.6, 3, 0.1]
  c = const uint8[4,1,1] [3, 5, 4, 2]
  zero = const int64[1] [0]
  four = const int64[1] [4]
  last = const int64[1] [-1]
",
    );
    let weights = [
        ("w3", "4,4,3,3", 144),
        ("w1", "4,4,1,1", 16),
        ("d3", "4,1,3,3", 36),
        ("w8", "4,8,1,1", 32),
    ];
    for (name, shape, n) in weights {
        let numbers: Vec<String> = (0..n).map(|i| (i * 7 % 11 - 5).to_string()).collect();
        writeln!(text, "  {name} = const int8[{shape}] [{}]", numbers.join(", ")).unwrap();
    }
    text
}
