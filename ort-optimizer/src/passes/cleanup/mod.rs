//! What goes because nobody needs it, or is there already.

mod inline_if;

// One a line.
passes! {
    dead_code_elimination,
    eliminate_identity,
    eliminate_slice,
    eliminate_dropout,
    expand_elimination,
    cast_elimination,
    noop_elimination,
    not_where_fusion,
    common_subexpression_elimination,
    constant_folding,
}
