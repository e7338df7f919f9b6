//! LayerNormalization, RMSNormalization and their variants with a skip connection in f32, f64 and 16-bit
//! floats, row by row, if scale and bias have one value per element of a row and the moments are not outputs.

// collects are bounded: by the rank

pub(super) mod doubles;
mod halves;

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Graph, Node, NodeId, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{self, Fold, NormRow};
use ort_ops::broadcast::Runs;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_ops::ops::skip_layer_normalization::SkipLayerNormalization;
use ort_tensor::{DType, Element, Inputs, Shape, TensorViewMut, n_elements};

use self::doubles::DoubleNormKernel;
use self::halves::HalfNormKernel;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::Team;
use crate::pieces::{LONG, PIECE, Rows, first_and_output, wanted};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// The cost of an element, in multiply-adds.
const COST: usize = 8;
/// The output that holds the sum with the skip connection.
const SUM: usize = 3;

#[derive(Debug)]
struct NormKernel {
    isa: Isa,
    form: Form,
}

/// The kind of normalization, and the indices of its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form {
    /// The first dimension of a row, negative if counted from the back.
    axis: i64,
    epsilon: f32,
    /// Whether the mean is subtracted.
    is_centered: bool,
    /// Whether input 1 is added first.
    has_skip: bool,
    scale: usize,
    /// The input that is added at the end.
    bias: Option<usize>,
    /// The input that is added to each row before it is normalized.
    skip_bias: Option<usize>,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    /// Elements per row.
    len: usize,
    /// The rows of the skip connection.
    skip: Option<Runs<1>>,
}

impl Form {
    fn of(graph: &Graph, id: NodeId) -> Option<Self> {
        if let Some(op) = op::<LayerNormalization>(graph, id) {
            let &LayerNormalization { axis, epsilon, is_centered, .. } = op;
            let (bias, skip_bias) = (Some(2), None);
            let has_skip = false;
            return Some(Self { axis, epsilon, is_centered, has_skip, scale: 1, bias, skip_bias });
        }
        let &SkipLayerNormalization { epsilon, is_centered } = op(graph, id)?;
        let (bias, skip_bias) = if is_centered { (Some(3), Some(4)) } else { (None, Some(3)) };
        Some(Self { axis: -1, epsilon, is_centered, has_skip: true, scale: 2, bias, skip_bias })
    }

    /// Whether the kernel supports this node.
    fn fits(self, graph: &Graph, node: &Node) -> bool {
        let fact = |i: usize| Some(graph.fact(node.inputs.get(i).copied().flatten()?));
        let dtype = fact(0).and_then(Fact::dtype);
        let is_same = |fact: &Fact| fact.dtype() == dtype;
        // Exporters name the moments even if they are unused; they are not written then.
        let mut moments = node.outputs.iter().skip(1).take(2).flatten();
        let has_moments = moments.any(|&moment| graph.is_used(moment));
        let Some(row) = fact(0).and_then(Fact::dims).and_then(|dims| {
            let row = dims.get(normalize_axis(self.axis, dims.len()).ok()?..)?;
            row.iter().map(ort_graph::Dim::known).collect::<Option<Vec<_>>>()
        }) else {
            return false;
        };
        let is_row =
            |i: usize| fact(i).is_none_or(|fact| fact.shape().is_some_and(|s| s[..] == row));
        let parameters = [Some(self.scale), self.bias, self.skip_bias];
        let takes = match dtype {
            Some(DType::F64) => !self.has_skip,
            dtype => matches!(dtype, Some(DType::F32 | DType::F16 | DType::Bf16)),
        };
        takes
            && fact(self.scale).is_some()
            && (0..node.inputs.len()).filter_map(fact).all(is_same)
            && parameters.into_iter().flatten().all(is_row)
            && !has_moments
    }
}

/// A row is read before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    Form::of(graph, id)?.fits(graph, node).then(|| {
        let mut claim = Claim::one(id, node);
        let x = node.inputs.first().copied().flatten();
        // f64 rows are read twice.
        if x.and_then(|x| graph.fact(x).dtype()) != Some(DType::F64) {
            claim.in_place.push((0, 0));
        }
        claim
    })
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let form = Form::of(compiler.graph, id);
    let form = form.filter(|form| form.fits(compiler.graph, compiler.graph.node(id)));
    let (Some(form), Some(dtype)) = (form, compiler.fact(0).and_then(Fact::dtype)) else {
        return Ok(None);
    };
    let (cpu, norm) = (compiler.cpu, NormKernel { isa: compiler.cpu.isa, form });
    Ok(Some(match dtype {
        DType::F32 => Box::new(norm),
        DType::F64 => Box::new(DoubleNormKernel { norm }),
        _ => Box::new(HalfNormKernel { cpu, norm, dtype }),
    }))
}

/// The tensors of a run.
struct Operands<'a, T> {
    x: Option<&'a [T]>,
    skip: Option<&'a [T]>,
    skip_bias: Option<&'a [T]>,
    scale: &'a [T],
    bias: Option<&'a [T]>,
}

impl<'a, T: Element> Operands<'a, T> {
    fn new(form: Form, x: Option<&'a [T]>, inputs: Inputs<'a>) -> Result<Self, KernelError> {
        let optional = |index: Option<usize>| -> Result<Option<&'a [T]>, KernelError> {
            let tensor = index.map(|index| inputs.optional_tensor(index)).transpose()?.flatten();
            Ok(tensor.map(|tensor| tensor.as_slice()).transpose()?)
        };
        Ok(Self {
            x,
            skip: optional(form.has_skip.then_some(1))?,
            skip_bias: optional(form.skip_bias)?,
            scale: inputs.tensor(form.scale)?.as_slice()?,
            bias: optional(form.bias)?,
        })
    }
}

impl NormKernel {
    /// Computes the row that begins at element `start`; `sum` is empty or receives the normalized operand.
    fn row(
        &self,
        state: &State,
        operands: &Operands<'_, f32>,
        start: usize,
        (y, sum): (&mut [f32], &mut [f32]),
    ) {
        let range = start..start + y.len();
        let mut x = operands.x.map(|x| &x[range.clone()]);
        if let (Some(skip), Some(runs)) = (operands.skip, &state.skip) {
            if let Some(x) = x.take() {
                y.copy_from_slice(x);
            }
            runs.for_each_within(range, |piece, [from]| {
                let y = &mut y[piece.start - start..piece.end - start];
                match runs.advances() {
                    [true] => vec::add(self.isa, y, &skip[from..][..y.len()]),
                    [false] => vec::add_scalar(self.isa, y, skip[from]),
                }
            });
        }
        self.normalize(operands, x, (y, sum));
    }

    /// Normalizes `x`, or `y` once its bias is added if there is no `x`, into `y`; `sum` is empty or
    /// receives the normalized operand.
    fn normalize(
        &self,
        operands: &Operands<'_, f32>,
        x: Option<&[f32]>,
        (y, sum): (&mut [f32], &mut [f32]),
    ) {
        if let Some(bias) = operands.skip_bias {
            vec::add(self.isa, y, bias);
        }
        if !sum.is_empty() {
            sum.copy_from_slice(y);
        }
        let Operands { scale, bias, .. } = *operands;
        if y.len() > LONG {
            return self.long(x, y, (scale, bias));
        }
        let row = NormRow { x, y, scale, bias, epsilon: self.form.epsilon };
        if self.form.is_centered {
            vec::layer_norm(self.isa, row);
        } else {
            vec::rms_norm(self.isa, row);
        }
    }
}

impl NormKernel {
    /// [`NormKernel::normalize`] of a long row.
    #[expect(clippy::cast_possible_truncation, reason = "results are f32")]
    fn long(&self, x: Option<&[f32]>, y: &mut [f32], (scale, bias): (&[f32], Option<&[f32]>)) {
        if let Some(x) = x {
            let pieces = y.chunks_mut(PIECE).zip(x.chunks(PIECE));
            wanted(pieces).for_each(|(y, x)| y.copy_from_slice(x));
        }
        let (isa, n) = (self.isa, y.len() as f64);
        let mean_of = |y: &[f32], term: &dyn Fn(&[f32]) -> f32| {
            wanted(y.chunks(PIECE)).map(|y| f64::from(term(y))).sum::<f64>() / n
        };
        let mean = match self.form.is_centered {
            true => mean_of(y, &|y| vec::fold_row(isa, Fold::Sum, y)) as f32,
            false => 0.0,
        };
        let variance = mean_of(y, &|y| vec::sum_of_squared_deviations(isa, y, mean));
        let factor = (1.0 / (variance + f64::from(self.form.epsilon)).sqrt()) as f32;
        for (i, y) in wanted(y.chunks_mut(PIECE).enumerate()) {
            let own = i * PIECE..i * PIECE + y.len();
            vec::standardize(isa, y, mean, factor, 0.0);
            vec::mul(isa, y, &scale[own.clone()]);
            if let Some(bias) = bias {
                vec::add(isa, y, &bias[own]);
            }
        }
    }

    fn state(&self, shapes: &[&[usize]]) -> Result<State, KernelError> {
        let &[x, skip, ..] = shapes else { return Err(KernelError::ForeignState) };
        let row = &x[normalize_axis(self.form.axis, x.len())?..];
        let parameters = [Some(self.form.scale), self.form.bias, self.form.skip_bias];
        for shape in parameters.into_iter().flatten().filter_map(|i| shapes.get(i)) {
            // An absent input has no dimensions.
            if !shape.is_empty() && *shape != row {
                let (left, right) = (shape.to_vec(), row.to_vec());
                return Err(OpError::Shapes { what: "row and parameter", left, right }.into());
            }
        }
        let skip = self.form.has_skip.then(|| Runs::new(x, [skip])).transpose()?;
        Ok(State { shape: x.into(), len: n_elements(row).unwrap_or(0), skip })
    }
}

impl Kernel for NormKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(self.state(shapes)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let (first, rest) = io.outputs.split_at_mut(1);
        let (x, y) = first_and_output(io.inputs, &mut first[0])?;
        let operands = Operands::new(self.form, x, io.inputs)?;
        let sum = rest.get_mut(SUM - 1).filter(|sum| self.form.has_skip && sum.is_wanted());
        let sum: &mut [f32] = match sum {
            Some(sum) => TensorViewMut::into_slice(sum.tensor(DType::F32, &state.shape)?)?,
            None => &mut [],
        };
        if y.is_empty() {
            return Ok(());
        }
        let rows = Rows { len: state.len, cost: state.len.saturating_mul(COST) };
        let piece_len = rows.piece_len(io.threads, y.len());
        let team = Team::new(io.threads, y.len().div_ceil(piece_len));
        let mut sums = sum.chunks_mut(piece_len);
        let pieces = y.chunks_mut(piece_len).map(move |y| (y, sums.next().unwrap_or_default()));
        team.run(pieces.enumerate(), |(i, (y, sum)), _| {
            let mut sums = sum.chunks_mut(state.len);
            for (j, y) in y.chunks_mut(state.len).enumerate() {
                let sum = sums.next().unwrap_or_default();
                self.row(state, &operands, i * piece_len + j * state.len, (y, sum));
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "layer_norm_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Element, Tensor, bf16, f16};

    use super::{LONG, PIECE};
    use crate::case::{Case, floats, within};

    /// Operands and parameters are at most 4, the normalized operand at most 12: a difference has an error of
    /// 16 units of that, and the result, after three more roundings, is at most 4·4.
    const ERROR: f32 = 4.0 * 4.0 * 32.0 * f32::EPSILON;

    #[test]
    fn rows_are_normalized_and_scaled() {
        for name in ["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"] {
            let version = match name {
                "LayerNormalization" => 17,
                "RMSNormalization" => 23,
                _ => 1,
            };
            let cases: [(&[usize], i64); 7] = [
                (&[7], 0),
                (&[3, 64], -1),
                (&[2, 5, 100], -1),
                (&[2, 5, 10], 1),
                (&[0, 9], 1),
                (&[700, 300], -1),
                (&[1, LONG + PIECE + 9], -1),
            ];
            for (shape, axis) in cases {
                let first = usize::try_from(axis).unwrap_or(shape.len() - 1);
                let case = || {
                    Case::new(name, version)
                        .attr("axis", Attr::Int(axis))
                        .input(floats(shape))
                        .weight(floats(&shape[first..]))
                };
                case().check(within(ERROR));
                if name == "LayerNormalization" {
                    case().weight(floats(&shape[first..])).check(within(ERROR));
                }
            }
        }
    }

    #[test]
    fn the_sum_with_the_skip_connection_is_an_output() {
        let (x, h) = (&[2, 30, 70][..], &[70][..]);
        let skips: [&[usize]; 5] = [x, &[1, 30, 70], &[30, 70], &[2, 1, 70], &[70]];
        for skip in skips {
            for (n_outputs, unwanted) in [(1, &[][..]), (4, &[1, 2])] {
                let case = |name| {
                    Case::new(name, 1)
                        .domain("com.microsoft")
                        .attr("epsilon", Attr::Float(1e-5))
                        .outputs(n_outputs)
                        .unwanted(unwanted)
                        .input(floats(x))
                        .input(floats(skip))
                        .weight(floats(h))
                };
                let full = || case("SkipLayerNormalization").weight(floats(h));
                full().check(within(ERROR));
                full().weight(floats(h)).check(within(ERROR));
                let simple = || case("SkipSimplifiedLayerNormalization");
                simple().check(within(ERROR));
                simple().weight(floats(h)).check(within(ERROR));
            }
        }
    }

    /// Numbers from −4 to 4 in another type.
    fn narrow<T: Element>(shape: &[usize], of: fn(f32) -> T) -> Tensor {
        let x = floats(shape);
        let elements: Vec<T> = x.as_slice::<f32>().unwrap().iter().map(|x| of(*x)).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    }

    fn check_halves<T: Element>(of: fn(f32) -> T, error: f32) {
        for shape in [&[3, 64][..], &[2, 5, 100], &[0, 9], &[700, 300]] {
            let row = &shape[shape.len() - 1..];
            let case = |name, version| {
                Case::new(name, version).input(narrow(shape, of)).weight(narrow(row, of))
            };
            case("RMSNormalization", 23).check(within(error));
            case("LayerNormalization", 17).weight(narrow(row, of)).check(within(error));
            for (n_outputs, unwanted) in [(1, &[][..]), (4, &[1, 2])] {
                let case = |name| {
                    let case = Case::new(name, 1).domain("com.microsoft").outputs(n_outputs);
                    let case = case.unwanted(unwanted).input(narrow(shape, of));
                    case.input(narrow(shape, of)).weight(narrow(row, of)).weight(narrow(row, of))
                };
                case("SkipSimplifiedLayerNormalization").check(within(error));
                case("SkipLayerNormalization").weight(narrow(row, of)).check(within(error));
            }
        }
    }

    #[test]
    fn rows_of_16_bits_are_normalized_in_f32() {
        // Results are below 32: one of their units, and the error of f32.
        check_halves(f16::from_f32, 1.0 / 64.0 + ERROR);
        check_halves(bf16::from_f32, 1.0 / 8.0 + ERROR);
    }
}
