//! Matrix products: sums of small whole numbers, which are exact, and of integers, which wrap.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::function::{Function, ULPS};
use super::groups::broadcast;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("MatMul", &[1, 9, 13], matmul),
    Property::microsoft("FusedMatMul", fused_matmul),
    Property::microsoft("TransposeMatMul", fused_matmul),
    Property::onnx("Gemm", &[1, 6, 7, 9, 11, 13], |draw, dtype| gemm(draw, dtype, false)),
    Property::microsoft("FusedGemm", |draw, dtype| gemm(draw, dtype, true)),
];

/// The shapes of two operands, possibly vectors.
pub(super) fn operands(draw: &mut Draw) -> [Vec<usize>; 2] {
    let rank = draw.below(4);
    let batch = draw.shape_of_rank(rank);
    let [m, k, n] = [draw.dim(), draw.dim(), draw.dim()];
    let side = |draw: &mut Draw, matrix: [usize; 2]| match draw.one_in(6) {
        true => vec![k],
        false => [&draw.operand(&batch)[..], &matrix].concat(),
    };
    [side(draw, [m, k]), side(draw, [k, n])]
}

/// `Σₖ a[…, m, k]·b[…, k, n]`, where a vector is a row or a column that leaves no dimension.
pub(super) fn multiplied(dtype: DType, a: &Array, b: &Array) -> Array {
    let row = (a.shape.len() == 1).then(|| a.reshaped(&[1, a.shape[0]]));
    let column = (b.shape.len() == 1).then(|| b.reshaped(&[b.shape[0], 1]));
    let (left, right) = (row.as_ref().unwrap_or(a), column.as_ref().unwrap_or(b));
    let (a_batch, a_matrix) = left.shape.split_at(left.shape.len() - 2);
    let (b_batch, b_matrix) = right.shape.split_at(right.shape.len() - 2);
    let batch = broadcast([a_batch, b_batch].into_iter());
    let whole = [&batch[..], &[a_matrix[0], b_matrix[1]]].concat();
    let y = Array::from_fn(&whole, |index| {
        let (batch, cell) = index.split_at(index.len() - 2);
        let term = |k| {
            let a = left.at_broadcast(&[batch, &[cell[0], k]].concat()).clone();
            [a, right.at_broadcast(&[batch, &[k, cell[1]]].concat()).clone()]
        };
        Cell::sum_of_products(dtype, (0..a_matrix[1]).map(term))
    });
    let rows = if row.is_some() { &[][..] } else { &a_matrix[..1] };
    let columns = if column.is_some() { &[][..] } else { &b_matrix[1..] };
    y.reshaped(&[&batch, rows, columns].concat())
}

fn matmul(draw: &mut Draw, dtype: DType) -> Sample {
    let [a, b] = operands(draw).map(|shape| draw.factors(dtype, &shape));
    Sample::new(&[&a.clone(), &b.clone()], move || {
        Expected::exact(dtype, multiplied(dtype, &Array::of(&a), &Array::of(&b)))
    })
}

/// A matrix or a batch in a stored arrangement: with its last two dimensions swapped, then the row
/// before the batch.
fn rearranged(draw: &mut Draw, x: &Tensor) -> (Tensor, [bool; 2]) {
    let flags = [draw.one_in(2), draw.one_in(3)];
    let rank = x.shape().len();
    let mut perm: Vec<_> = (0..rank).collect();
    if rank >= 2 {
        if flags[0] {
            perm.swap(rank - 2, rank - 1);
        }
        if flags[1] {
            perm[..rank - 1].rotate_right(1);
        }
    }
    (Array::of(x).transposed(&perm).to_tensor(x.dtype()), flags)
}

fn fused_matmul(draw: &mut Draw, dtype: DType) -> Sample {
    let [a, b] = operands(draw).map(|shape| draw.small(dtype, &shape));
    let alpha = draw.pick(&[None, Some(0.5), Some(-2.0)]);
    let (stored_a, [is_a, is_batch_a]) = rearranged(draw, &a);
    let (stored_b, [is_b, is_batch_b]) = rearranged(draw, &b);
    let sample = Sample::new(&[&stored_a, &stored_b], move || {
        let y = multiplied(dtype, &Array::of(&a), &Array::of(&b));
        let alpha = f64::from(alpha.unwrap_or(1.0));
        Expected::exact(dtype, y.map(|sum| Cell::Float(alpha * sum.float())))
    });
    let flag = |is_set: bool| is_set.then_some(Attr::Int(1));
    sample
        .maybe("alpha", alpha.map(Attr::Float))
        .maybe("transA", flag(is_a))
        .maybe("transB", flag(is_b))
        .maybe("transBatchA", flag(is_batch_a))
        .maybe("transBatchB", flag(is_batch_b))
}

/// `alpha · a·b + beta · c`, and a function of it.
fn gemm(draw: &mut Draw, dtype: DType, is_fused: bool) -> Sample {
    let [m, k, n] = [draw.dim(), draw.dim(), draw.dim()];
    let (a, b) = (draw.small(dtype, &[m, k]), draw.small(dtype, &[k, n]));
    let may_miss_c = is_fused || draw.version >= 11;
    let shape = draw.operand(&[m, n]);
    let c = draw.small(dtype, &shape);
    let c = Some(c).filter(|_| !may_miss_c || draw.one_in(2));
    let factors = if dtype.is_float() { &[0.0, 0.5, -2.0] } else { &[0.0, 2.0, 3.0] };
    let [alpha, beta] =
        [0, 1].map(|_| if draw.one_in(2) { None } else { Some(draw.pick(factors)) });
    let function = Some(Function::draw(draw)).filter(|_| is_fused && dtype.is_float());
    let flags = [draw.one_in(2), draw.one_in(2)];
    let stored = |x: &Tensor, is_transposed| match is_transposed {
        true => Array::of(x).transposed(&[1, 0]).to_tensor(dtype),
        false => x.clone(),
    };
    let operands = [stored(&a, flags[0]), stored(&b, flags[1])];
    let mut sample = Sample::new(&[&operands[0], &operands[1]], Vec::new).input(2, c.clone());
    if let Some(function) = &function {
        sample = sample.attr("activation", function.written());
        let names = [
            "activation_alpha",
            match function.name {
                "Selu" => "activation_gamma",
                _ => "activation_beta",
            },
        ];
        for (name, &parameter) in names.into_iter().zip(&function.parameters) {
            sample = sample.attr(name, Attr::Float(parameter));
        }
    }
    let ulps = if function.is_some() { ULPS } else { 0.0 };
    let oracle = move || {
        let y = multiplied(dtype, &Array::of(&a), &Array::of(&b));
        let c = c.as_ref().map(Array::of);
        let scaled = |factor: Option<f32>, x: &Cell| f64::from(factor.unwrap_or(1.0)) * x.float();
        let y = Array::from_fn(&y.shape, |index| {
            let c = c.as_ref().map_or(0.0, |c| scaled(beta, c.at_broadcast(index)));
            let x = scaled(alpha, y.at(index)) + c;
            Cell::number(dtype, function.as_ref().map_or(x, |function| function.apply(x)))
        });
        Expected::near(dtype, y, ulps)
    };
    Sample { oracle: Box::new(oracle), ..sample }
        .maybe("alpha", alpha.map(Attr::Float))
        .maybe("beta", beta.map(Attr::Float))
        .maybe("transA", flags[0].then_some(Attr::Int(1)))
        .maybe("transB", flags[1].then_some(Attr::Int(1)))
}
