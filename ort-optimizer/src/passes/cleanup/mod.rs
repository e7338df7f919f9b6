//! Removes what is unused or redundant.

mod inline_if;

pub(super) use self::constant_folding::folded;
pub(crate) use self::insert_cast_transformer::InsertCastTransformer;

// One per line.
passes! {
    dead_code_elimination,
    eliminate_identity,
    loop_invariant_state,
    slice_chain_fusion,
    eliminate_slice,
    eliminate_dropout,
    expand_elimination,
    cast_elimination,
    cast_chain_elimination,
    noop_elimination,
    single_input_elimination,
    pad_elimination,
    pre_shape_node_elimination,
    unsqueeze_elimination,
    squeeze_reorder,
    reshape_chain_fusion,
    reshape_elimination,
    not_where_fusion,
    half_gelu_fusion,
    insert_cast_transformer,
    constant_sharing,
    common_subexpression_elimination,
    constant_folding,
}
