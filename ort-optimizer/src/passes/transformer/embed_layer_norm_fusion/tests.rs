//! The fusion of embeddings and their norm.

use expect_test::{Expect, expect};

use crate::testing::assert_optimized;

/// A graph with tables of three rows, and these nodes.
fn assert_embedded(inputs: &str, outputs: &str, nodes: &str, expected: &Expect) {
    let text = format!(
        "graph({inputs}) -> ({outputs}) {{
           word = const float[3,2] [1, 2, 3, 5, 8, 13]
           position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
           segment = const float[3,2] [0, 1, 3, 0, 2, 1]
           scale = const float[2] [1, 2]
           bias = const float[2] [3, 4]
           {nodes}
         }}"
    );
    assert_optimized(super::PASS, &text, expected);
}

#[test]
fn lookups_in_any_order_become_one_node() {
    assert_embedded(
        "ids: int64[b,s], kinds: int32[b,s], places: int64[1,s], own: int32[b,s]",
        "y, z, w, v",
        "a = Gather-13 (word, ids)
         b = Gather-13 (position, places)
         c = Gather-13 [axis: -2] (segment, kinds)
         d = Add-14 (a, c)
         e = Add-14 (d, b)
         y = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
         f = Add-14 (b, c)
         g = Add-14 (a, f)
         z = LayerNormalization-17 [epsilon: 0.125, axis: 2] (g, scale, bias)
         h = Add-14 (b, a)
         w = LayerNormalization-17 [epsilon: 0.125] (h, scale, bias)
         i = Gather-13 (position, own)
         j = Add-14 (a, i)
         v = LayerNormalization-1 [epsilon: 0.125] (j, scale, bias)",
        &expect![[r#"
            graph(ids: int64[b,s], kinds: int32[b,s], places: int64[1,s], own: int32[b,s]) -> (y, z, w, v) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              segment = const float[3,2] [0, 1, 3, 0, 2, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              value = Cast-13 [to: 6] (ids)
              value_2 = Cast-13 [to: 6] (places)
              y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value, kinds, word, position, segment, scale, bias, _, value_2)
              value_3 = Cast-13 [to: 6] (ids)
              value_4 = Cast-13 [to: 6] (places)
              z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_3, kinds, word, position, segment, scale, bias, _, value_4)
              value_5 = Cast-13 [to: 6] (ids)
              value_6 = Cast-13 [to: 6] (places)
              w, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_5, _, word, position, _, scale, bias, _, value_6)
              value_7 = Cast-13 [to: 6] (ids)
              v, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_7, _, word, position, _, scale, bias, _, own)
            }"#]],
    );
}

#[test]
fn positions_that_count_up_are_left_out() {
    assert_embedded(
        "ids: int32[b,s], few: int32[2,3]",
        "y, z, w, v",
        "all = const int64[1,4] [0, 1, 2, 3]
         zero = const int64[1] [0]
         one = const int64[1] [1]
         n = Shape-15 (ids)
         length = Gather-13 (n, one)
         places = Slice-13 (all, zero, length, one)
         a = Gather-13 (word, ids)
         b = Gather-13 (position, places)
         c = Add-14 (a, b)
         y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
         some = const int64[1,5] [1, -3, 2, 3, 0]
         others = Slice-13 (some, zero, length, one, one)
         d = Gather-13 (position, others)
         e = Add-14 (a, d)
         z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
         list = const int64[3] [0, 1, 2]
         f = Gather-13 (position, list)
         g = Gather-13 (word, few)
         h = Add-14 (g, f)
         w = LayerNormalization-17 [epsilon: 0.125] (h, scale, bias)
         back = const int64[1,3] [-1, -2, 2]
         i = Gather-13 (position, back)
         j = Add-14 (i, g)
         v = LayerNormalization-17 [epsilon: 0.125] (j, scale, bias)",
        &expect![[r#"
            graph(ids: int32[b,s], few: int32[2,3]) -> (y, z, w, v) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              zero = const int64[1] [0]
              one = const int64[1] [1]
              some = const int64[1,5] [1, -3, 2, 3, 0]
              back = const int64[1,3] [-1, -2, 2]
              n = Shape-15 (ids)
              length = Gather-13 (n, one)
              others = Slice-13 (some, zero, length, one, one)
              y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, _, word, position, _, scale, bias)
              value = Cast-13 [to: 6] (others)
              z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, _, word, position, _, scale, bias, _, value)
              w, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (few, _, word, position, _, scale, bias)
              value_2 = Cast-13 [to: 6] (back)
              v, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (few, _, word, position, _, scale, bias, _, value_2)
            }"#]],
    );
}

#[test]
fn folded_positions_are_a_table() {
    assert_embedded(
        "ids: int64[2,4], kinds: int64[2,4], few: int64[2,1], x: int64[b,s]",
        "y, z, w, v",
        "a = Gather-13 (word, ids)
         b = Gather-13 (segment, kinds)
         c = Add-14 (a, position)
         y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
         rows = const float[1,4,2] [1, 0, 2, 4, 0, 9, 7, 2]
         d = Add-14 (rows, b)
         e = Add-14 (a, d)
         z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
         f = Gather-13 (word, few)
         g = Add-14 (f, rows)
         w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
         row = const float[1,1,2] [1, 0]
         h = Gather-13 (word, x)
         i = Add-14 (h, row)
         v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)",
        &expect![[r#"
            graph(ids: int64[2,4], kinds: int64[2,4], few: int64[2,1], x: int64[b,s]) -> (y, z, w, v) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              segment = const float[3,2] [0, 1, 3, 0, 2, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              rows = const float[1,4,2] [1, 0, 2, 4, 0, 9, 7, 2]
              row = const float[1,1,2] [1, 0]
              value_4 = const int64[2] [-1, 2]
              f = Gather-13 (word, few)
              g = Add-14 (f, rows)
              w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
              h = Gather-13 (word, x)
              i = Add-14 (h, row)
              v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)
              value = Cast-13 [to: 6] (ids)
              y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value, _, word, position, _, scale, bias)
              value_2 = Cast-13 [to: 6] (kinds)
              value_3 = Cast-13 [to: 6] (ids)
              value_5 = Reshape-13 (rows, value_4)
              z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_3, value_2, word, value_5, segment, scale, bias)
            }
            2 refused: the shapes of its ids may differ"#]],
    );
}

#[test]
fn a_broadcast_column_stays() {
    assert_embedded(
        "ids: int64[2,3]",
        "y, z",
        "column = const float[3,1] [1, 2, 3]
         a = Gather-13 (word, ids)
         b = Gather-13 (column, ids)
         c = Add-14 (a, b)
         y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
         whole = const float[3,1] [1, 2, 3]
         d = Add-14 (a, whole)
         z = LayerNormalization-17 [epsilon: 0.125] (d, scale, bias)",
        &expect![[r#"
            graph(ids: int64[2,3]) -> (y, z) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              column = const float[3,1] [1, 2, 3]
              whole = const float[3,1] [1, 2, 3]
              a = Gather-13 (word, ids)
              b = Gather-13 (column, ids)
              c = Add-14 (a, b)
              y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
              d = Add-14 (a, whole)
              z = LayerNormalization-17 [epsilon: 0.125] (d, scale, bias)
            }
            2 refused: the shapes of its ids may differ"#]],
    );
}

#[test]
fn other_sums_stay() {
    assert_embedded(
        "ids: int64[2,3], one: int64[2,1], list: int64[3], t: float[3,2], x: float[2,3,2]",
        "y, z, w, v, u, s, r, q, g",
        "a = Gather-13 (word, ids)
         b = Gather-13 (position, one)
         c = Add-14 (a, b)
         y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
         d = Gather-13 (position, list)
         e = Add-14 (a, d)
         z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
         f = Gather-13 (position, ids)
         g = Add-14 (a, f)
         w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
         h = Gather-13 (t, ids)
         i = Add-14 (a, h)
         v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)
         j = Add-14 (a, f)
         u = LayerNormalization-17 [epsilon: 0.125] (j, scale)
         k = Add-14 (a, x)
         s = LayerNormalization-17 [epsilon: 0.125] (k, scale, bias)
         l = Add-14 (a, f)
         r, q = LayerNormalization-17 [epsilon: 0.125] (l, scale, bias)",
        &expect![[r#"
            graph(ids: int64[2,3], one: int64[2,1], list: int64[3], t: float[3,2], x: float[2,3,2]) -> (y, z, w, v, u, s, r, q, g) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              a = Gather-13 (word, ids)
              b = Gather-13 (position, one)
              c = Add-14 (a, b)
              y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
              d = Gather-13 (position, list)
              e = Add-14 (a, d)
              z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
              f = Gather-13 (position, ids)
              g = Add-14 (a, f)
              w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
              h = Gather-13 (t, ids)
              i = Add-14 (a, h)
              v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)
              j = Add-14 (a, f)
              u = LayerNormalization-17 [epsilon: 0.125] (j, scale)
              k = Add-14 (a, x)
              s = LayerNormalization-17 [epsilon: 0.125] (k, scale, bias)
              l = Add-14 (a, f)
              r, q = LayerNormalization-17 [epsilon: 0.125] (l, scale, bias)
            }
            2 refused: the shapes of its ids may differ
            1 refused: a sum is used elsewhere
            1 refused: the norm has no bias
            1 refused: its moments or its sum are used"#]],
    );
}

#[test]
fn sums_of_four_and_other_norms_stay() {
    assert_embedded(
        "ids: int64[2,3], own: float[2]",
        "y, z, w, v",
        "a = Gather-13 (word, ids)
         b = Gather-13 (position, ids)
         c = Add-14 (a, a)
         d = Add-14 (b, b)
         e = Add-14 (c, d)
         y = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
         f = Add-14 (a, b)
         z = LayerNormalization-17 [epsilon: 0.125] (f, scale, own)
         plane = const float[3,2] fill 2
         g = Add-14 (a, b)
         w = LayerNormalization-17 [axis: 1] (g, plane, plane)
         v = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (a, b, scale, bias, bias)",
        &expect![[r#"
            graph(ids: int64[2,3], own: float[2]) -> (y, z, w, v) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              plane = const float[3,2] fill 2
              a = Gather-13 (word, ids)
              b = Gather-13 (position, ids)
              c = Add-14 (a, a)
              d = Add-14 (b, b)
              e = Add-14 (c, d)
              y = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
              f = Add-14 (a, b)
              z = LayerNormalization-17 [epsilon: 0.125] (f, scale, own)
              g = Add-14 (a, b)
              w = LayerNormalization-17 [axis: 1] (g, plane, plane)
              v = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (a, b, scale, bias, bias)
            }
            1 refused: its parameters are not a constant for each element of a row
            1 refused: its rows have more than one dimension"#]],
    );
}

#[test]
fn a_norm_with_a_skip_connection_is_one_of_a_sum() {
    assert_embedded(
        "ids: int32[b,s], kinds: int32[b,s], places: int32[1,s]",
        "y, z, w, sum",
        "a = Gather-13 (word, ids)
         b = Gather-13 (segment, kinds)
         c = Add-14 (a, b)
         d = Gather-13 (position, places)
         y = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (c, d, scale, bias)
         z = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (a, b, scale, bias)
         w, _, _, sum = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (a, b, scale, bias)",
        &expect![[r#"
            graph(ids: int32[b,s], kinds: int32[b,s], places: int32[1,s]) -> (y, z, w, sum) {
              word = const float[3,2] [1, 2, 3, 5, 8, 13]
              position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
              segment = const float[3,2] [0, 1, 3, 0, 2, 1]
              scale = const float[2] [1, 2]
              bias = const float[2] [3, 4]
              a = Gather-13 (word, ids)
              b = Gather-13 (segment, kinds)
              w, _, _, sum = com.microsoft:SkipLayerNormalization-1 [epsilon: 0.125] (a, b, scale, bias)
              y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, kinds, word, position, segment, scale, bias, _, places)
              z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, _, word, segment, _, scale, bias, _, kinds)
            }
            1 refused: its moments or its sum are used"#]],
    );
}
