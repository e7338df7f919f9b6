//! A function of one quantized value is a table of 256 entries: QLinearSigmoid and QLinearLeakyRelu, and nodes that
//! together compute a function of one quantized value, such as SiLU and GELU.
//!
//! ```text
//! y = Q(f(DQ(x)), g(DQ(x)), …)      table[q] = y for x = q      y[i] = table[x[i]]
//! ```
//! The table holds the results of the operators' own `eval`, so the results equal theirs.

mod functions;

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId};
use ort_ops::ops::microsoft::qlinear_unary::QLinearUnary;
use ort_tensor::{DType, Shape};
use smallvec::{SmallVec, smallvec};

use self::functions::Functions;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

#[derive(Debug)]
struct ByteTable {
    table: [u8; 256],
    /// The type of the results.
    dtype: DType,
}

fn claim(graph: &Graph, root: NodeId) -> Option<Claim> {
    let functions = Functions::to(graph, root)?;
    let nodes = functions.nodes[functions.n_shared..].into();
    let inputs = smallvec![Some(functions.quantized)];
    let outputs = graph.node(root).outputs.clone();
    Some(Claim { nodes, inputs, outputs, in_place: SmallVec::new() })
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let functions = match (compiler.op::<QLinearUnary>(), claim.root(), &claim.inputs[..]) {
        (Some(_), Some(root), _) => Functions::alone(graph, root),
        // As claimed: a node that is claimed alone also reads its scale.
        (None, Some(root), [Some(quantized)]) => {
            let is_claimed = |functions: &Functions| {
                functions.quantized == *quantized
                    && functions.nodes[functions.n_shared..] == claim.nodes[..]
            };
            Functions::to(graph, root).filter(is_claimed)
        }
        _ => None,
    };
    let Some(functions) = functions else { return Ok(None) };
    let table = functions.table(graph)?;
    let dtype = table.dtype();
    let table = table.view().as_bytes().and_then(|bytes| bytes.try_into().ok());
    Ok(table.map(|table| Box::new(ByteTable { table, dtype }) as Box<dyn Kernel>))
}

impl Kernel for ByteTable {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Shape::from(x)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_words::<u8>()?;
        let y = io.outputs[0].tensor(self.dtype, prepared.state::<Shape>()?)?;
        Rows::ELEMENTS.for_each(io.threads, y.into_words::<u8>()?, |start, y| {
            let x = &x[start..][..y.len()];
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = self.table[usize::from(x)]);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "quantized lookup table"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};
    use crate::steps::assert_steps;

    #[test]
    fn functions_of_quantized_values_equal_eval() {
        for name in ["QLinearSigmoid", "QLinearLeakyRelu"] {
            let case = |x: Tensor, zeros: [Tensor; 2]| {
                let [x_zero, y_zero] = zeros;
                let case = Case::new(name, 1).domain("com.microsoft");
                let case = if name.ends_with("Relu") {
                    case.attr("alpha", Attr::Float(0.1))
                } else {
                    case
                };
                let case = case.input(x).constant(Tensor::scalar(0.06_f32)).constant(x_zero);
                case.constant(Tensor::scalar(0.02_f32)).constant(y_zero).check(exact);
            };
            case(bytes(&[3, 500, 71], |bits| bits), [100_u8, 7].map(Tensor::scalar));
            case(bytes(&[0, 3], u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
            case(bytes(&[], u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
        }
    }

    #[test]
    fn functions_between_quantized_values_are_one_step() {
        assert_steps(
            "graph(x: float[3,40,21]) -> (u, v) {
               s = const float[] 0.03
               z = const uint8[] 128
               t = const float[] 0.0078125
               tz = const int8[] 3
               root = const float[] 1.5
               q = QuantizeLinear-13 (x, s, z)
               a = DequantizeLinear-13 (q, s, z)
               b = Div-14 (a, root)
               c = Round-11 (b)
               d = Relu-14 (c)
               u = QuantizeLinear-13 (d, t, tz)
               e = DequantizeLinear-13 (u, t, tz)
               f = Abs-13 (e)
               g = Sub-14 (root, f)
               v = QuantizeLinear-13 (g, t, tz)
             }",
            &[1, 5, 4],
        );
    }

    #[test]
    fn functions_of_several_paths_are_one_step() {
        assert_steps(
            "graph(x: float[3,40,21]) -> (silu, shared, sigmoid, gelu, float, sum) {
               s = const float[] 0.03
               z = const uint8[] 128
               t = const float[] 0.00390625
               tz = const uint8[] 0
               half = const uint8[1] [64]
               root = const float[] 1.5
               q = QuantizeLinear-13 (x, s, z)
               a = com.microsoft:QLinearSigmoid-1 (q, s, z, t, tz)
               silu = com.microsoft:QLinearMul-1 (q, s, z, a, t, tz, s, z)
               sigmoid = com.microsoft:QLinearSigmoid-1 (q, s, z, s, tz)
               shared = com.microsoft:QLinearMul-1 (sigmoid, s, tz, q, s, z, s, z)
               b = DequantizeLinear-13 (q, s, z)
               c = Div-14 (b, root)
               d = QuantizeLinear-13 (c, s, z)
               e = DequantizeLinear-13 (d, s, z)
               f = Erf-13 (e)
               g = QuantizeLinear-13 (f, s, z)
               h = com.microsoft:QLinearAdd-1 (g, s, z, half, t, tz, t, tz)
               i = com.microsoft:QLinearMul-1 (q, s, z, h, t, tz, s, z)
               gelu = com.microsoft:QLinearMul-1 (half, t, tz, i, s, z, s, z)
               float = Mul-14 (b, root)
               j = Exp-13 (x)
               k = QuantizeLinear-13 (j, s, z)
               sum = com.microsoft:QLinearAdd-1 (q, s, z, k, s, z, s, z)
             }",
            &[1, 2, 1, 1, 1, 8, 1, 1, 1, 1],
        );
    }
}
