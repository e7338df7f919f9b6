//! Attention in f32: the standard's and GroupQueryAttention, with a past, and those of com.microsoft without,
//! with queries, keys and values in rows, or made by a product of one input.

mod group_query;
mod heads;
mod projected;
mod scores;
mod standard;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_ops::ops::microsoft::multi_head_attention::MultiHeadAttention;
use ort_tensor::{DType, Inputs, TensorViewMut};

use self::heads::{Heads, Operands, Strides};
use self::scores::{Bias, Rule};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Which inputs hide keys: a flag for each key (int32), and what is added to each score.
#[derive(Clone, Copy)]
struct Places {
    mask: usize,
    bias: usize,
}

const PLACES: Places = Places { mask: 4, bias: 5 };

#[derive(Debug)]
struct RowsKernel {
    cpu: Cpu,
    op: MultiHeadAttention,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    for compile in [rows, projected::compile, standard::compile, group_query::compile] {
        if let Some(kernel) = compile(compiler)? {
            return Ok(Some(kernel));
        }
    }
    Ok(None)
}

/// Queries, keys and values in rows.
fn rows(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MultiHeadAttention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_rows = |input| compiler.fact(input).and_then(Fact::rank) == Some(3);
    let is_taken = !op.is_decoder
        && (0..3).all(is_rows)
        && compiler.are_f32(0..3)
        && ![3, 6, 7, 8, 9].into_iter().any(is_there)
        && masks(compiler, PLACES);
    let cpu = compiler.cpu;
    Ok(is_taken.then(|| Box::new(RowsKernel { cpu, op }) as Box<dyn Kernel>))
}

/// Whether keys are hidden by flags and floats alone, and only `y` is wanted.
fn masks(compiler: &Compiler<'_>, places: Places) -> bool {
    let is = |input, dtype, rank| {
        let is = |fact: &Fact| fact.dtype() == Some(dtype) && fact.rank() == Some(rank);
        compiler.fact(input).is_none_or(is)
    };
    let is_more_wanted = compiler.claim.outputs.iter().skip(1).any(Option::is_some);
    is(places.mask, DType::I32, 2) && is(places.bias, DType::F32, 4) && !is_more_wanted
}

/// The same heads with what hides keys, of these shapes.
fn seen(mut heads: Heads, shapes: &[&[usize]], places: Places) -> Result<Heads, KernelError> {
    let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
    let misfit = |shape: &[usize]| {
        let (left, right) = (shape.to_vec(), vec![heads.batch, heads.q_len, heads.kv_len]);
        KernelError::Op(OpError::Shapes { what: "the mask of attention", left, right })
    };
    heads.has_mask = match shape(places.mask) {
        [] => false,
        &[batch, len] if [batch, len] == [heads.batch, heads.kv_len] => true,
        // Flags that are the same for all keys hide none.
        &[batch, 1] if batch == 1 || batch == heads.batch => false,
        other => return Err(misfit(other)),
    };
    heads.bias = match shape(places.bias) {
        [] => None,
        shape => {
            let is_whole = shape.ends_with(&[heads.q_len, heads.kv_len]);
            let bias = Bias::new(shape, &heads).filter(|_| is_whole);
            Some(bias.ok_or_else(|| misfit(shape))?)
        }
    };
    Ok(heads)
}

impl<'a> Operands<'a> {
    fn read_masks(&mut self, inputs: Inputs<'a>, places: Places) -> Result<(), KernelError> {
        if let Some(mask) = inputs.optional_tensor(places.mask)? {
            self.seen.mask = mask.as_slice()?;
        }
        if let Some(bias) = inputs.optional_tensor(places.bias)? {
            self.seen.bias = bias.as_slice()?;
        }
        Ok(())
    }
}

impl RowsKernel {
    fn heads(&self, shapes: &[&[usize]]) -> Result<Heads, KernelError> {
        let &[q, k, v, ..] = shapes else { return Err(KernelError::ForeignState) };
        let misfit = || {
            let (left, right) = (q.to_vec(), [k, v].concat());
            KernelError::Op(OpError::Shapes { what: "queries, keys and values", left, right })
        };
        let (&[batch, q_len, width], &[k_batch, kv_len, k_width], &[v_batch, v_len, v_width]) =
            (q, k, v)
        else {
            return Err(misfit());
        };
        let n = self.op.num_heads;
        let is_alike = [k_batch, v_batch] == [batch; 2] && k_width == width && v_len == kv_len;
        if !is_alike || width % n != 0 || v_width % n != 0 {
            return Err(misfit());
        }
        let &MultiHeadAttention { scale, mask_filter_value: filter, unidirectional, .. } = &self.op;
        let heads = Heads {
            cpu: self.cpu,
            batch,
            heads: n,
            shared: 1,
            q_len,
            kv_len,
            size: width / n,
            v_size: v_width / n,
            q: Strides::joined([q_len, width, width / n]),
            k: Strides::joined([kv_len, width, width / n]),
            v: Strides::joined([kv_len, v_width, v_width / n]),
            is_joined: true,
            bias: None,
            has_mask: false,
            rule: Rule { filter, ..Rule::of_rows(scale, width / n, unidirectional) },
        };
        seen(heads, shapes, PLACES)
    }
}

impl Kernel for RowsKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let heads = self.heads(shapes)?;
        let scratch_bytes = self.cpu.scratch_bytes(heads.scratch_len());
        Ok(Prepared::new(heads).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let heads: &Heads = prepared.state()?;
        let inputs = io.inputs;
        let tensor = |input| Ok::<_, KernelError>(inputs.tensor(input)?.as_slice::<f32>()?);
        let mut operands =
            Operands { q: tensor(0)?, k: tensor(1)?, v: tensor(2)?, ..Operands::default() };
        operands.read_masks(inputs, PLACES)?;
        let shape = [heads.batch, heads.q_len, heads.heads * heads.v_size];
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &shape)?)?;
        heads.run(&operands, y, (io.threads, io.scratch));
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, within};

    /// Operands are at most 4. A score of up to 9 terms of at most 16, times a half, is good to 10
    /// units of 72; so is the exponential of it, relatively, and the sum and the weights that are
    /// made of it to twice that; results are means of values.
    const ERROR: f32 = 4.0 * 2.0 * 10.0 * 72.0 * f32::EPSILON;

    /// What is projected is at most 4·4·9 + 4 = 148 and good to 10 units of that; scores of 5 products of
    /// such by 1/1024, at most 107, to 26 of that; exponentials as far, weights to twice as much.
    const PROJECTED: f32 = 148.0 * 2.0 * 26.0 * 107.0 * f32::EPSILON;

    fn case(heads: i64) -> Case {
        let case = Case::new("MultiHeadAttention", 1).domain("com.microsoft");
        case.attr("num_heads", Attr::Int(heads)).attr("scale", Attr::Float(0.5))
    }

    #[test]
    fn heads_of_any_number_and_size_attend_to_each_other() {
        // Heads, batch, queries, keys, sizes of keys and of values.
        for [n, b, s, t, d, e] in [
            [1, 1, 1, 1, 1, 1],
            [2, 1, 3, 5, 4, 4],
            [3, 2, 17, 17, 8, 8],
            [4, 2, 300, 40, 9, 5],
            [2, 3, 1, 33, 8, 16],
            [2, 0, 3, 3, 4, 4],
            [2, 2, 0, 3, 4, 4],
            [2, 2, 3, 0, 4, 4],
        ] {
            let operands =
                |case: Case| {
                    case.input(floats(&[b, s, n * d]))
                        .input(floats(&[b, t, n * d]))
                        .input(floats(&[b, t, n * e]))
                };
            let heads = i64::try_from(n).unwrap();
            operands(case(heads)).check(within(ERROR));
            for [of_batch, of_heads] in [[b, n], [1, n], [b, 1], [1, 1]] {
                let case = operands(case(heads)).absent().absent();
                case.input(floats(&[of_batch, of_heads, s, t])).check(within(ERROR));
            }
        }
    }

    #[test]
    fn queries_may_see_no_later_keys() {
        for [s, t] in [[5, 5], [1, 4], [4, 6], [7, 3]] {
            let case = case(2).attr("unidirectional", Attr::Int(1));
            let case = case.input(floats(&[2, s, 8])).input(floats(&[2, t, 8]));
            case.input(floats(&[2, t, 8])).check(within(ERROR));
        }
    }

    #[test]
    fn what_is_hidden_does_not_count() {
        let (s, t) = (3, 4);
        let mut bias = vec![0.0_f32; s * t];
        bias[1] = f32::NEG_INFINITY;
        bias[t..2 * t].fill(f32::NEG_INFINITY);
        bias[2 * t..].fill(f32::MIN);
        let bias = Tensor::from_slice(&[1, 1, s, t], &bias).unwrap();
        let case = case(2).input(floats(&[1, s, 8])).input(floats(&[1, t, 8]));
        case.input(floats(&[1, t, 8])).absent().absent().input(bias).check(within(ERROR));
    }

    #[test]
    fn flags_hide_keys() {
        let (b, s, t) = (2, 3, 4);
        let flags = Tensor::from_slice(&[b, t], &[1, 1, 0, 1, 0, 0, 1, 0]).unwrap();
        let case = case(2).attr("mask_filter_value", Attr::Float(-3.0)).input(floats(&[b, s, 8]));
        let case = case.input(floats(&[b, t, 8])).input(floats(&[b, t, 8])).absent().input(flags);
        case.clone().check(within(ERROR));
        case.input(floats(&[1, 1, s, t])).check(within(ERROR));
    }

    #[test]
    fn queries_keys_and_values_are_projections() {
        // Heads, batch, length, depth, sizes of keys and of values.
        for [n, b, s, i, d, e] in
            [[1, 1, 1, 1, 1, 1], [2, 2, 5, 7, 4, 4], [3, 1, 140, 9, 2, 5], [2, 0, 3, 4, 2, 2]]
        {
            let width = n * (d + d + e);
            let ints = |sizes: [usize; 3]| {
                Attr::Ints(sizes.iter().map(|&n| i64::try_from(n).unwrap()).collect())
            };
            let case = Case::new("Attention", 1).domain("com.microsoft");
            let case = case
                .attr("num_heads", Attr::Int(i64::try_from(n).unwrap()))
                .attr("scale", Attr::Float(1.0 / 1024.0))
                .attr("unidirectional", Attr::Int(i64::from(b == 2)))
                .attr("qkv_hidden_sizes", ints([n * d, n * d, n * e]))
                .input(floats(&[b, s, i]))
                .weight(floats(&[i, width]));
            case.clone().check(within(PROJECTED));
            let case = case.weight(floats(&[width]));
            case.clone().check(within(PROJECTED));
            let flags: Vec<i32> = (0..b * s).map(|i| i32::from(i % 3 != 1)).collect();
            let flags = Tensor::from_slice(&[b, s], &flags).unwrap();
            case.input(flags).check(within(PROJECTED));
        }
    }
}
