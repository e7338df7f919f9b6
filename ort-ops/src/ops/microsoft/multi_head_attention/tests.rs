//! Tests of `multi_head_attention`.
