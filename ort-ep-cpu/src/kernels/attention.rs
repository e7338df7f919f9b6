//! MultiHeadAttention in f32 of queries, keys and values in rows: for each head and some queries at a
//! time, a product to scores, a softmax of each of their rows, and a product to results.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::gemm_f32::{Gemm, Lhs, Matrix, Start, Strided};
use ort_kernels::{Activation, vec};
use ort_ops::ops::microsoft::multi_head_attention::MultiHeadAttention;
use ort_tensor::{DType, TensorViewMut};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Where what is added to the scores stands.
const BIAS: usize = 5;
/// The most queries that are answered together: keys and values are packed once for all.
const MAX_QUERIES: usize = 128;
/// Their scores should stay in the second-level cache.
const MAX_SCORES: usize = 1 << 17;

#[derive(Debug)]
struct AttentionKernel {
    cpu: Cpu,
    op: MultiHeadAttention,
}

/// What a shape signature makes of it.
#[derive(Debug)]
struct State {
    batch: usize,
    heads: usize,
    /// Queries, and how many of them are answered together.
    q_len: usize,
    together: usize,
    kv_len: usize,
    /// Elements of a head of a query or key, and of a value.
    size: usize,
    v_size: usize,
    /// From batch to batch and from head to head of what is added to the scores.
    bias: Option<[usize; 2]>,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MultiHeadAttention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_rows = |input| compiler.fact(input).and_then(Fact::rank) == Some(3);
    let is_more_wanted = compiler.claim.outputs.iter().skip(1).any(Option::is_some);
    let is_taken = !op.is_decoder
        && (0..3).all(is_rows)
        && !(3..10).filter(|&input| input != BIAS).any(is_there)
        && compiler.are_f32(0..BIAS + 1)
        && !is_more_wanted;
    let cpu = compiler.cpu;
    Ok(is_taken.then(|| Box::new(AttentionKernel { cpu, op }) as Box<dyn Kernel>))
}

/// The tensors of a run.
struct Operands<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    bias: &'a [f32],
}

/// Some queries of one head, and where their results go.
struct Part<'y> {
    batch: usize,
    head: usize,
    first: usize,
    y: Vec<&'y mut [f32]>,
}

impl State {
    fn new(heads: usize, shapes: &[&[usize]]) -> Result<Self, KernelError> {
        let misfit = || {
            let of = |i: usize| shapes.get(i).map(|shape| shape.to_vec()).unwrap_or_default();
            let (left, right) = (of(0), [of(1), of(2), of(BIAS)].concat());
            KernelError::Op(OpError::Shapes { what: "queries, keys and values", left, right })
        };
        let &[q, k, v, ..] = shapes else { return Err(misfit()) };
        let (&[batch, q_len, width], &[k_batch, kv_len, k_width], &[v_batch, v_len, v_width]) =
            (q, k, v)
        else {
            return Err(misfit());
        };
        let is_alike = [k_batch, v_batch] == [batch; 2] && k_width == width && v_len == kv_len;
        if !is_alike || width % heads != 0 || v_width % heads != 0 {
            return Err(misfit());
        }
        let bias = match shapes.get(BIAS).copied() {
            None | Some([]) => None,
            Some(&[of_batch, of_heads, s, t]) if [s, t] == [q_len, kv_len] => {
                let each = s * t;
                let stride = |n, full, stride| match n {
                    1 => Ok(0),
                    n if n == full => Ok(stride),
                    _ => Err(misfit()),
                };
                let of_batch = stride(of_batch, batch, of_heads * each)?;
                Some([of_batch, stride(of_heads, heads, each)?])
            }
            Some(_) => return Err(misfit()),
        };
        let together = (MAX_SCORES / kv_len.max(1)).clamp(16, MAX_QUERIES).min(q_len);
        let (size, v_size) = (width / heads, v_width / heads);
        Ok(Self { batch, heads, q_len, together, kv_len, size, v_size, bias })
    }

    /// Each head of some queries, in the order of `y`: `[B, S, N·E]`.
    fn parts<'y>(&self, y: &'y mut [f32]) -> impl Iterator<Item = Part<'y>> + Send {
        let &Self { heads, q_len, together, v_size, .. } = self;
        let row = heads * v_size;
        y.chunks_mut(q_len * row).enumerate().flat_map(move |(batch, y)| {
            y.chunks_mut(together * row).enumerate().flat_map(move |(i, y)| {
                let mut rows: Vec<Vec<&mut [f32]>> = Vec::new();
                rows.resize_with(heads, || Vec::with_capacity(together));
                y.chunks_mut(v_size).enumerate().for_each(|(j, y)| rows[j % heads].push(y));
                let heads = rows.into_iter().enumerate();
                heads.map(move |(head, y)| Part { batch, head, first: i * together, y })
            })
        })
    }

    /// `scores = start + scale · q·kᵀ` of a part.
    fn scores<'a>(
        &self,
        (cpu, scale): (Cpu, f32),
        operands: &Operands<'a>,
        part: &Part<'_>,
    ) -> Gemm<'a, Matrix<'a>> {
        let &Self { heads, q_len, kv_len, size, .. } = self;
        let (row, column) = (heads * size, part.head * size);
        let m = part.y.len();
        let q = Matrix {
            data: &operands.q[(part.batch * q_len + part.first) * row + column..],
            rows: m,
            columns: size,
            row_stride: row,
            column_stride: 1,
        };
        let k = Matrix {
            data: &operands.k[part.batch * kv_len * row + column..],
            rows: size,
            columns: kv_len,
            row_stride: 1,
            column_stride: row,
        };
        let start = if self.bias.is_some() { Start::C } else { Start::Zero };
        let a = Lhs::Strided { a: q, alpha: scale };
        Gemm { isa: cpu.isa, m, n: kv_len, k: size, a, b: k, start, activation: Activation::None }
    }

    /// `y = weights · v` of a part.
    fn results<'a>(
        &self,
        cpu: Cpu,
        (weights, v): (&'a [f32], &'a [f32]),
        part: &Part<'_>,
    ) -> Gemm<'a, Matrix<'a>> {
        let &Self { heads, kv_len, v_size, .. } = self;
        let (row, m) = (heads * v_size, part.y.len());
        let v = Matrix {
            data: &v[part.batch * kv_len * row + part.head * v_size..],
            rows: kv_len,
            columns: v_size,
            row_stride: row,
            column_stride: 1,
        };
        let a = Lhs::Strided { a: Matrix::row_major(weights, m, kv_len), alpha: 1.0 };
        let (start, activation) = (Start::Zero, Activation::None);
        Gemm { isa: cpu.isa, m, n: v_size, k: kv_len, a, b: v, start, activation }
    }

    /// The elements of scratch for products: keys, values and queries are packed in it.
    fn product_scratch_len(&self, cpu: Cpu) -> usize {
        let none = Matrix::row_major(&[], 0, 0);
        let gemm = |n, k| {
            let (start, activation) = (Start::Zero, Activation::None);
            let a = Lhs::Strided { a: none, alpha: 1.0 };
            let gemm = Gemm { isa: cpu.isa, m: self.together, n, k, a, b: none, start, activation };
            gemm.scratch_len(self.together)
        };
        gemm(self.kv_len, self.size).max(gemm(self.v_size, self.kv_len))
    }
}

impl AttentionKernel {
    /// The queries that see no later key see so many.
    fn n_seen(&self, state: &State, query: usize) -> usize {
        let is_causal = self.op.unidirectional && query + 1 < state.q_len;
        if is_causal { state.kv_len.min(query + 1) } else { state.kv_len }
    }

    /// Makes weights of the scores of one query, to which `bias` was added.
    fn weigh(&self, state: &State, query: usize, (scores, bias): (&mut [f32], &[f32])) {
        let n_seen = self.n_seen(state, query);
        let (seen, unseen) = scores.split_at_mut(n_seen);
        unseen.fill(0.0);
        // A query that sees nothing gets nothing.
        if !bias.is_empty() && bias[..n_seen].iter().all(|&bias| bias == f32::NEG_INFINITY) {
            seen.fill(0.0);
        } else {
            vec::softmax(self.cpu.isa, seen);
        }
    }

    fn answer(
        &self,
        state: &State,
        operands: &Operands<'_>,
        (mut part, scratch): (Part<'_>, &mut [f32]),
    ) {
        let n = state.kv_len;
        let (scores, scratch) = scratch.split_at_mut(state.together * n);
        let scores = &mut scores[..part.y.len() * n];
        let bias = match state.bias {
            Some([batch, head]) => {
                let start = part.batch * batch + part.head * head + part.first * n;
                &operands.bias[start..][..scores.len()]
            }
            None => &[],
        };
        if !bias.is_empty() {
            scores.copy_from_slice(bias);
        }
        let given = self.op.scale.filter(|&scale| scale != 0.0);
        let scale = given.unwrap_or_else(|| (state.size as f32).sqrt().recip());
        let product = state.scores((self.cpu, scale), operands, &part);
        product.run(&product.whole(), &mut Strided { data: scores, stride: n }, scratch);
        for (i, scores) in scores.chunks_mut(n).enumerate() {
            let bias = bias.get(i * n..(i + 1) * n).unwrap_or_default();
            self.weigh(state, part.first + i, (scores, bias));
        }
        let product = state.results(self.cpu, (scores, operands.v), &part);
        product.run(&product.whole(), &mut part.y[..], scratch);
    }
}

impl Kernel for AttentionKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = State::new(self.op.num_heads, shapes)?;
        let len = state.together * state.kv_len + state.product_scratch_len(self.cpu);
        let scratch_bytes = self.cpu.scratch_bytes(len);
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let tensor = |input| Ok::<_, KernelError>(io.inputs.tensor(input)?.as_slice::<f32>()?);
        let bias = io.inputs.optional_tensor(BIAS)?;
        let bias = bias.map(|bias| bias.as_slice()).transpose()?.unwrap_or_default();
        let operands = Operands { q: tensor(0)?, k: tensor(1)?, v: tensor(2)?, bias };
        let shape = [state.batch, state.q_len, state.heads * state.v_size];
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &shape)?)?;
        if y.is_empty() || state.kv_len == 0 {
            y.fill(0.0);
            return Ok(());
        }
        let n_parts = state.batch * state.heads * state.q_len.div_ceil(state.together);
        let len = state.together * state.kv_len + state.product_scratch_len(self.cpu);
        let team = Team::new(io.threads, n_parts).with_scratch(io.scratch, len);
        team.run(state.parts(y), |part, scratch| self.answer(state, &operands, (part, scratch)));
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
            let operands = |case: Case| {
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
}
