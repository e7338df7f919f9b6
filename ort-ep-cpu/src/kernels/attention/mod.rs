//! Attention of every operator that has it, in one pass over keys and values: of f32 or 16 bits, with queries,
//! keys and values in any of their forms, or made by a product of one input, and behind a past.

mod cache;
mod floats;
mod group_query;
mod heads;
mod options;
mod pass;
mod projected;
mod rows;
mod scores;
mod standard;

use super::{Compiled, Compiler, KernelDef};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

fn compile(compiler: &Compiler<'_>) -> Compiled {
    for compile in [rows::compile, projected::compile, standard::compile, group_query::compile] {
        if let Some(kernel) = compile(compiler)? {
            return Ok(Some(kernel));
        }
    }
    Ok(None)
}
