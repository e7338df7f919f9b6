//! Lowering inverts the conversion to NCHWc, and reports what it does not support.

use expect_test::{Expect, expect};

use crate::driver::optimize;
use crate::eval::Reference;
use crate::options::{Level, Options};
use crate::testing::parse;

/// Numbers between −1 and 1 that look random, the same for the same seed.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = u16::try_from(self.0 >> 48).unwrap();
        f32::from(bits) / 32768.0 - 1.0
    }
}

/// The lowered graph, printed, or the error.
fn lowered(text: &str, stated: Option<usize>) -> String {
    lowered_with(text, Options { nchwc_block_size: stated, ..Options::default() })
}

fn lowered_with(text: &str, options: Options) -> String {
    let options = Options { level: Level::Disable, ..options };
    match optimize(parse(text), &ort_ops::registry(), &options, &Reference) {
        Ok((graph, report)) => {
            graph.verify().unwrap_or_else(|error| panic!("{error}\n{graph}"));
            format!("{} nodes\n{graph}", report.passes[0].applied)
        }
        Err(error) => error.to_string(),
    }
}

fn assert_lowered(text: &str, expected: &Expect) {
    expected.assert_eq(&lowered(text, None));
}

#[test]
fn convolutions_keep_their_attributes_and_fuse_their_summands() {
    assert_lowered(
        r#"graph(x: float[1,3,4,4]) -> (y) {
             w1 = const float[16,3,1,1] fill 2
             w2 = const float[16,16,3,3] fill 1
             w3 = const float[16,1,1,1] fill 3
             b = const float[16] fill 4
             a = com.microsoft.nchwc:Conv-1 "first" [activation: "Clip",
               activation_params: [0.0, 6.0], strides: [2, 2]] (x, w1, b)
             s = com.microsoft.nchwc:Conv-1 [pads: [1, 1, 1, 1]] (a, w2, _, a)
             c = com.microsoft.nchwc:Conv-1 [group: 16] (s, w3, b)
             y = com.microsoft.nchwc:ReorderOutput-1 [channels: 16] (c)
           }"#,
        &expect![[r#"
            4 nodes
            graph(x: float[1,3,4,4]) -> (y) {
              b = const float[16] fill 4
              w1_2 = const float[16,3,1,1] fill 2
              w2_2 = const float[16,16,3,3] fill 1
              w3_2 = const float[16,1,1,1] fill 3
              a_2 = com.microsoft:FusedConv-1 "first" [activation: "Clip", activation_params: [0.0, 6.0], group: 1, strides: [2, 2]] (x, w1_2, b)
              s_2 = com.microsoft:FusedConv-1 [group: 1, pads: [1, 1, 1, 1]] (a_2, w2_2, _, a_2)
              y = Conv-11 [group: 16] (s_2, w3_2, b)
            }"#]],
    );
}

#[test]
fn pools_enlargements_and_elementwise_operators_become_plain() {
    assert_lowered(
        r#"graph(x: float[1,24,4,4]) -> (y) {
             six = const float[] 6
             five = const int64[5] [0, -1, 0, 0, 8]
             four = const int64[4] [0, -1, 0, 0]
             a = com.microsoft.nchwc:ReorderInput-1 (x)
             b = com.microsoft.nchwc:MaxPool-1 [kernel_shape: [2, 2], ceil_mode: 1] (a)
             c = com.microsoft.nchwc:AveragePool-1 [kernel_shape: [2, 2], count_include_pad: 1] (a)
             d = com.microsoft.nchwc:Upsample-1 [scales: [1, 1, 2, 2], mode: "linear",
               coordinate_transformation_mode: "half_pixel"] (b)
             e = com.microsoft.nchwc:GlobalAveragePool-1 (d)
             f = Clip-13 (e, _, six)
             g = Reshape-14 (c, five)
             h = Reshape-14 (f, five)
             i = Add-14 (g, h)
             j = Reshape-14 (i, four)
             k = Concat-13 [axis: 1] (j, c)
             y = com.microsoft.nchwc:ReorderOutput-1 [channels: 48] (k)
           }"#,
        &expect![[r#"
            6 nodes
            graph(x: float[1,24,4,4]) -> (y) {
              six = const float[] 6
              roi = const float[0] []
              scales = const float[4] [1, 1, 2, 2]
              b_2 = MaxPool-12 [ceil_mode: 1, kernel_shape: [2, 2]] (x)
              c_2 = AveragePool-19 [count_include_pad: 1, kernel_shape: [2, 2]] (x)
              d_2 = Resize-13 [coordinate_transformation_mode: "half_pixel", mode: "linear", nearest_mode: "floor"] (b_2, roi, scales)
              e_2 = GlobalAveragePool-1 (d_2)
              f_2 = Clip-13 (e_2, _, six)
              i_2 = Add-14 (c_2, f_2)
              y = Concat-13 [axis: 1] (i_2, c_2)
            }"#]],
    );
}

#[test]
fn plain_operators_follow_the_version_that_the_model_imports() {
    let text = "graph(x: float[1,24,4,4]) -> (y) {
        a = com.microsoft.nchwc:ReorderInput-1 (x)
        b = com.microsoft.nchwc:AveragePool-1 [kernel_shape: [2, 2]] (a)
        y = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (b)
    }";
    for (opset, expected) in [(Some(12), 12), (Some(22), 19), (None, 19), (Some(10), 19)] {
        let plain = lowered_with(text, Options { opset, ..Options::default() });
        assert!(plain.contains(&format!("AveragePool-{expected} ")), "{opset:?}: {plain}");
    }
}

#[test]
fn reorders_move_channels_and_add_or_drop_them() {
    assert_lowered(
        "graph(x: float[n,2,3,20]) -> (y, z, v, p) {
           w = const float[24,24,1,1] fill 1
           a = com.microsoft.nchwc:ReorderInput-1 [channels_last: 1] (x)
           b = com.microsoft.nchwc:Conv-1 (a, w)
           p = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (a)
           y = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (b)
           z = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (b)
           v = com.microsoft.nchwc:ReorderOutput-1 [channels: 20, channels_last: 1] (b)
         }",
        &expect![[r#"
            6 nodes
            graph(x: float[n,2,3,20]) -> (y, z, v, p) {
              pads = const int64[8] [0, 0, 0, 0, 0, 4, 0, 0]
              w_2 = const float[24,24,1,1] fill 1
              start = const int64[1] [0]
              end = const int64[1] [20]
              axis = const int64[1] [1]
              value = Transpose-13 [perm: [0, 3, 1, 2]] (x)
              p = Pad-13 (value, pads)
              y = Conv-11 [group: 1] (p, w_2)
              z = Identity-13 (y)
              value_2 = Slice-13 (y, start, end, axis)
              v = Transpose-13 [perm: [0, 2, 3, 1]] (value_2)
            }"#]],
    );
}

#[test]
fn subgraphs_have_the_same_blocks() {
    assert_lowered(
        "graph(x: float[1,24,1,1], c: bool[]) -> (y) {
           y = If-16 [
             then_branch: graph() -> (t) {
               a = com.microsoft.nchwc:ReorderInput-1 (x)
               t = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (a)
             },
             else_branch: graph() -> (u) {
               w = const float[32,24,1,1] fill 1
               b = com.microsoft.nchwc:ReorderInput-1 (x)
               d = com.microsoft.nchwc:Conv-1 (b, w)
               u = com.microsoft.nchwc:ReorderOutput-1 [channels: 32] (d)
             }
           ] (c)
         }",
        &expect![[r#"
            5 nodes
            graph(x: float[1,24,1,1], c: bool[]) -> (y) {
              y = If-16 [else_branch: graph() -> (u) {
                w_2 = const float[32,24,1,1] fill 1
                u = Conv-11 [group: 1] (x, w_2)
              }, then_branch: graph() -> (t) {
                t = Identity-13 (x)
              }] (c)
            }"#]],
    );
}

/// Each node contradicts one block size; two together contradict both.
#[test]
fn contradictions_name_nodes_and_reasons() {
    let conv = |node: &str, channels: usize, w: &str| {
        let text = "graph(x: float[1,12,2,2]) -> (y) {
             w = const float[W] fill 1
             a = com.microsoft.nchwc:ReorderInput-1 (x)
             NODE
             y = com.microsoft.nchwc:ReorderOutput-1 [channels: CHANNELS] (b)
           }";
        let text = text.replace("NODE", node).replace("W]", &format!("{w}]"));
        lowered(&text.replace("CHANNELS", &channels.to_string()), None)
    };
    let cases = [
        // Twelve channels in NCHWc exclude 16, and filters of ones are not padding.
        conv("b = com.microsoft.nchwc:Conv-1 (a, w)", 15, "16,16,1,1"),
        // An input of twelve channels in NCHW excludes 8.
        conv("b = com.microsoft.nchwc:Conv-1 (x, w)", 24, "24,12,1,1"),
        conv("b = com.microsoft.nchwc:Conv-1 (x, w)", 20, "20,12,1,1"),
        conv("b = com.microsoft.nchwc:Conv-1 [block_size: 4] (a, w)", 16, "16,16,1,1"),
    ];
    expect![[r#"
        no block size fits the com.microsoft.nchwc nodes: not 8, because of node `Conv`: its filters would not be zero where channels are padding; not 16, because of node `Conv`: that few channels stay in NCHW
        no block size fits the com.microsoft.nchwc nodes: not 8, because of node `Conv`: that many channels would be in NCHWc; not 16, because of node `Conv`: its channels are not a multiple of that
        no block size fits the com.microsoft.nchwc nodes: not 8, because of node `Conv`: its channels are not a multiple of that; not 16, because of node `Conv`: its channels are not a multiple of that
        no block size fits the com.microsoft.nchwc nodes: not 8, because of node `Conv`: it states another size; not 16, because of node `Conv`: it states another size"#]].assert_eq(&cases.join("\n"));
}

#[test]
fn a_stated_block_size_must_fit() {
    let text = "graph(x: float[1,3,2,2]) -> (y) {
      w = const float[24,3,1,1] fill 0.5
      a = com.microsoft.nchwc:Conv-1 (x, w)
      y = com.microsoft.nchwc:ReorderOutput-1 [channels: 24] (a)
    }";
    let found = [Some(16), Some(4)].map(|stated| lowered(text, stated));
    expect![[r#"
        no block size fits the com.microsoft.nchwc nodes: not 16, because of node `Conv`: its channels are not a multiple of that
        the block size is 8 or 16, not 4"#]].assert_eq(&found.join("\n"));
}

#[test]
fn nchwc_values_that_a_reader_does_not_support_are_rejected() {
    let graph = |nodes: &str| {
        let text = "graph(x: float[1,16,2,2], c: bool[]) -> (y) {
          k = const float[16,1,1] fill 1
          w = const float[16,16,1,1] fill 1
          a = com.microsoft.nchwc:ReorderInput-1 (x)
          NODES
        }";
        lowered(&text.replace("NODES", nodes), None)
    };
    let cases = [
        graph("y = Softmax-13 [axis: 1] (a)"),
        graph("y = Relu-14 (a)"),
        graph("y = Mul-14 (a, k)"),
        graph("y = Concat-13 [axis: 2] (a, a)"),
        graph("y = com.microsoft.nchwc:MaxPool-1 [kernel_shape: [1, 1]] (x)"),
        graph("y = com.microsoft.nchwc:ReorderInput-1 (a)"),
        graph("y = com.microsoft.nchwc:ReorderOutput-1 [channels: 3] (x)"),
        graph("y = com.microsoft.nchwc:Conv-1 (a, x)"),
        graph("y = com.microsoft.nchwc:Conv-1 (a, w, _, x)"),
        graph(
            "y = If-16 [then_branch: graph() -> (t) { t = Neg-13 (a) },
             else_branch: graph() -> (u) { u = Neg-13 (x) }] (c)",
        ),
    ];
    expect![[r#"
        node `Softmax` (Softmax): it cannot read data in NCHWc
        node `Relu` (Relu): the graph returns its result, which is in NCHWc
        node `Mul` (Mul): some of its inputs are in NCHWc and some are not
        node `Concat` (Concat): it does not concatenate along channels
        node `MaxPool` (MaxPool): some of its inputs are in NCHWc and some are not
        node `ReorderInput` (ReorderInput): its input is in NCHWc already
        node `ReorderOutput` (ReorderOutput): its input is in NCHW
        node `Conv` (Conv): its filters are not constant
        node `Conv` (Conv): its summand is in NCHW
        node `If` (If): a subgraph reads data in NCHWc"#]]
    .assert_eq(&cases.join("\n"));
}

#[test]
fn what_no_filter_depends_on_needs_no_block_size() {
    let text = "graph(x: float[1,16,2,2]) -> (y) {
      a = com.microsoft.nchwc:ReorderInput-1 (x)
      b = com.microsoft.nchwc:GlobalMaxPool-1 (a)
      y = com.microsoft.nchwc:ReorderOutput-1 [channels: 16] (b)
    }";
    assert_lowered(
        text,
        &expect![[r#"
        3 nodes
        graph(x: float[1,16,2,2]) -> (y) {
          y = GlobalMaxPool-1 (x)
        }"#]],
    );
}
