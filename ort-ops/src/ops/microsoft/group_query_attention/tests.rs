//! Tests of `group_query_attention`.
