//! Products that are computed for all iterations at once, and others.

use expect_test::expect;

use crate::testing::{assert_optimized, assert_rewritten, run};

#[test]
fn a_product_of_a_scanned_input_is_scanned() {
    assert_optimized(
        super::PASS,
        "graph(h0: float[1,2], xs: float[3,1,2], w: float[2,2]) -> (h, ys, zs) {
           u = const float[2,2] [1, 2, 3, 4]
           h, ys, zs = Scan-16 [
             body: graph(h_in: float[1,2], x: float[1,2]) -> (h_out, y, z) {
               p = MatMul-13 (x, u)
               q = MatMul-13 (x, w)
               y = MatMul-13 (x, u)
               s = Add-14 (p, q)
               r = MatMul-13 (h_in, w)
               h_out = Add-14 (s, r)
               z = Neg-13 (x)
             },
             num_scan_inputs: 1
           ] (h0, xs)
         }",
        &expect![[r#"
            graph(h0: float[1,2], xs: float[3,1,2], w: float[2,2]) -> (h, ys, zs) {
              u_2 = const float[2,2] [1, 2, 3, 4]
              value = MatMul-13 (xs, u_2)
              value_2 = MatMul-13 (xs, w)
              h, ys, zs = Scan-16 [body: graph(h_in: float[1,2], x: float[1,2], p: float[1,2], q: float[1,2]) -> (h_out, y, z) {
                u = const float[2,2] [1, 2, 3, 4]
                y = MatMul-13 (x, u)
                s = Add-14 (p, q)
                r = MatMul-13 (h_in, w)
                h_out = Add-14 (s, r)
                z = Neg-13 (x)
              }, num_scan_inputs: 3] (h0, xs, value, value_2)
            }"#]],
    );
}

#[test]
fn a_product_of_rows_that_are_looked_up_is_looked_up() {
    assert_optimized(
        super::PASS,
        "graph(h0: float[1,2], xs: float[3,1,2]) -> (h, k) {
           u = const float[2,2] [1, 2, 3, 4]
           three = const int64[] 3
           h = Loop-16 [
             body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
               x = Gather-13 [axis: 0] (xs, t)
               p = MatMul-13 (x, u)
               h_out = Add-14 (p, h_in)
               on = Identity-16 (go)
             }
           ] (three, _, h0)
           k = Loop-16 [
             body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
               x = Gather-13 [axis: 0] (xs, t)
               p = MatMul-13 (x, u)
               h_out = Add-14 (p, h_in)
               one = const int64[] 1
               two = const int64[] 2
               n = Add-14 (t, one)
               on = Less-13 (n, two)
             }
           ] (_, _, h0)
         }",
        &expect![[r#"
            graph(h0: float[1,2], xs: float[3,1,2]) -> (h, k) {
              three = const int64[] 3
              u_2 = const float[2,2] [1, 2, 3, 4]
              u_3 = const float[2,2] [1, 2, 3, 4]
              value = MatMul-13 (xs, u_2)
              h = Loop-16 [body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
                p_of_all = outer value
                on = Identity-16 (go)
                p = Gather-13 [axis: 0] (p_of_all, t)
                h_out = Add-14 (p, h_in)
              }] (three, _, h0)
              value_2 = MatMul-13 (xs, u_3)
              k = Loop-16 [body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
                p_of_all = outer value_2
                one = const int64[] 1
                two = const int64[] 2
                n = Add-14 (t, one)
                on = Less-13 (n, two)
                p = Gather-13 [axis: 0] (p_of_all, t)
                h_out = Add-14 (p, h_in)
              }] (_, _, h0)
            }"#]],
    );
}

#[test]
fn so_is_one_of_items_of_a_split_tensor() {
    assert_rewritten(
        super::PASS,
        "graph(h0: float[1,2], xs: float[3,1,2]) -> (h) {
           u = const float[2,2] [1, 2, 3, 4]
           three = const int64[] 3
           s = SplitToSequence-11 [axis: 0, keepdims: 0] (xs)
           h = Loop-16 [
             body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (go, h_out) {
               x = SequenceAt-11 (s, t)
               p = MatMul-13 (x, u)
               h_out = Add-14 (p, h_in)
             }
           ] (three, _, h0)
         }",
        &expect![[r#"
            graph(h0: float[1,2], xs: float[3,1,2]) -> (h) {
              three = const int64[] 3
              u_2 = const float[2,2] [1, 2, 3, 4]
              value = MatMul-13 (xs, u_2)
              h = Loop-16 [body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (go, h_out) {
                p_of_all = outer value
                p = Gather-13 [axis: 0] (p_of_all, t)
                h_out = Add-14 (p, h_in)
              }] (three, _, h0)
            }"#]],
    );
}

#[test]
fn a_loop_that_may_end_early_or_has_fewer_iterations_than_rows_keeps_its_products() {
    assert_optimized(
        super::PASS,
        "graph(h0: float[1,2], xs: float[9,1,2]) -> (h, k) {
           u = const float[2,2] [1, 2, 3, 4]
           three = const int64[] 3
           nine = const int64[] 9
           h = Loop-16 [
             body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (go, h_out) {
               x = Gather-13 [axis: 0] (xs, t)
               p = MatMul-13 (x, u)
               h_out = Add-14 (p, h_in)
             }
           ] (three, _, h0)
           k = Loop-16 [
             body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
               x = Gather-13 [axis: 0] (xs, t)
               p = MatMul-13 (x, u)
               h_out = Add-14 (p, h_in)
               sum = ReduceSum-13 [keepdims: 0] (h_out)
               zero = const float[] 0
               on = Less-13 (sum, zero)
             }
           ] (nine, _, h0)
         }",
        &expect![[r#"
            graph(h0: float[1,2], xs: float[9,1,2]) -> (h, k) {
              three = const int64[] 3
              nine = const int64[] 9
              h = Loop-16 [body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (go, h_out) {
                u = const float[2,2] [1, 2, 3, 4]
                x = Gather-13 [axis: 0] (xs, t)
                p = MatMul-13 (x, u)
                h_out = Add-14 (p, h_in)
              }] (three, _, h0)
              k = Loop-16 [body: graph(t: int64[], go: bool[], h_in: float[1,2]) -> (on, h_out) {
                u = const float[2,2] [1, 2, 3, 4]
                zero = const float[] 0
                x = Gather-13 [axis: 0] (xs, t)
                p = MatMul-13 (x, u)
                h_out = Add-14 (p, h_in)
                sum = ReduceSum-13 [keepdims: 0] (h_out)
                on = Less-13 (sum, zero)
              }] (nine, _, h0)
            }"#]],
    );
}

#[test]
fn products_that_are_much_more_than_their_rows_stay() {
    for (n_rows, width, is_moved) in
        [("n", 4096, true), ("n", 4097, false), ("4096", 4096, true), ("4097", 4096, false)]
    {
        let text = format!(
            "graph(h: float[1,{width}], xs: float[{n_rows},1,2], w: float[2,{width}]) -> (y) {{
               y = Scan-16 [
                 body: graph(h_in: float[1,{width}], x: float[1,2]) -> (h_out) {{
                   p = MatMul-13 (x, w)
                   h_out = Add-14 (p, h_in)
                 }},
                 num_scan_inputs: 1
               ] (h, xs)
             }}"
        );
        let optimized = run(&super::PASS, &text, None).0.to_string();
        assert_eq!(optimized.contains("num_scan_inputs: 2"), is_moved, "{n_rows} {width}");
    }
}
