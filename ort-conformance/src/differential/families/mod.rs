//! The generators: a family of operators is a file, and a line here.

mod conv;
mod elements;
mod elementwise;
mod epilogue;
mod fourier;
mod images;
mod indexed;
mod linear;
mod low_bits;
mod movement;
mod normalization;
mod pool;
mod product;
mod quantized;
mod reduction;
mod sequence;
mod trees;
mod types;
mod views;

use super::case::Case;
use super::draw::Draw;
use super::net::{Net, ROUNDING, Value};

/// A generator of graphs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// Writes a graph, and returns its outputs.
    draw: fn(&mut Net<'_>) -> Vec<Value>,
}

/// All of them.
pub(crate) const FAMILIES: &[Family] = &[
    Family { name: "Conv", draw: conv::convolution },
    Family { name: "ConvTranspose", draw: conv::transposed },
    Family { name: "Conv chain", draw: conv::chain },
    Family { name: "MatMul", draw: product::matmul },
    Family { name: "Gemm", draw: product::gemm },
    Family { name: "binary", draw: elementwise::binary },
    Family { name: "unary", draw: elementwise::unary },
    Family { name: "reduction", draw: reduction::reduction },
    Family { name: "Softmax", draw: reduction::softmax },
    Family { name: "Hardmax", draw: reduction::hardmax },
    Family { name: "LpNormalization", draw: reduction::lp_normalization },
    Family { name: "LRN", draw: reduction::lrn },
    Family { name: "MeanVarianceNormalization", draw: reduction::mean_variance_normalization },
    Family { name: "ReduceLogSumExp", draw: reduction::log_sum_exp },
    Family { name: "functions of f64", draw: reduction::double },
    Family { name: "pool", draw: pool::pool },
    Family { name: "images", draw: images::network },
    Family { name: "NCHWc", draw: images::blocks },
    Family { name: "Transpose", draw: movement::transpose },
    Family { name: "Concat", draw: movement::concat },
    Family { name: "variadic", draw: movement::variadic },
    Family { name: "ArgMax", draw: movement::arg_max },
    Family { name: "Resize", draw: movement::resize },
    Family { name: "Einsum", draw: movement::einsum },
    Family { name: "STFT", draw: fourier::frames },
    Family { name: "DFT", draw: fourier::axis },
    Family { name: "layer normalization", draw: normalization::layer },
    Family { name: "group normalization", draw: normalization::group },
    Family { name: "embedding", draw: normalization::embedding },
    Family { name: "recurrent", draw: sequence::recurrent },
    Family { name: "MultiHeadAttention", draw: sequence::attention },
    Family { name: "Attention", draw: sequence::projected },
    Family { name: "TreeEnsembleRegressor", draw: trees::regressor },
    Family { name: "product of other types", draw: types::product },
    Family { name: "windows of f16", draw: types::windows },
    Family { name: "Cast", draw: elements::cast },
    Family { name: "functions of other types", draw: elements::function },
    Family { name: "functions of 16 bits", draw: elements::half },
    Family { name: "binary operators of other types", draw: elements::pair },
    Family { name: "reductions of other types", draw: elements::fold },
    Family { name: "TopK", draw: elements::top_k },
    Family { name: "cumulative", draw: elements::cumulative },
    Family { name: "GridSample", draw: elements::grid_sample },
    Family { name: "normalization of 16 bits", draw: elements::norm },
    Family { name: "Transpose of other types", draw: elements::transpose },
    Family { name: "quantized product", draw: quantized::matmul },
    Family { name: "dynamically quantized", draw: quantized::dynamic },
    Family { name: "QLinearConv", draw: quantized::convolution },
    Family { name: "quantized", draw: quantized::pointwise },
    Family { name: "Expand", draw: movement::expand },
    Family { name: "ConvInteger", draw: quantized::integer_convolution },
    Family { name: "quantized values", draw: quantized::operators },
    Family { name: "Split", draw: movement::split },
    Family { name: "GatherElements", draw: movement::gather_elements },
    Family { name: "Col2Im", draw: movement::col2im },
    Family { name: "AffineGrid", draw: movement::affine_grid },
    Family { name: "NonMaxSuppression", draw: movement::non_max_suppression },
    Family { name: "Attention of the standard", draw: sequence::standard },
    Family { name: "RotaryEmbedding", draw: sequence::rotary },
    Family { name: "weights of a few bits", draw: quantized::few_bits },
    Family { name: "GroupQueryAttention", draw: sequence::group_query },
    Family { name: "DynamicQuantizeLSTM", draw: quantized::lstm },
    Family { name: "Gather", draw: indexed::gather },
    Family { name: "GatherND", draw: indexed::gather_nd },
    Family { name: "ScatterND", draw: indexed::scatter_nd },
    Family { name: "ScatterElements", draw: indexed::scatter_elements },
    Family { name: "Compress", draw: indexed::compress },
    Family { name: "ReverseSequence", draw: indexed::reverse_sequence },
    Family { name: "Pad", draw: indexed::pad },
    Family { name: "Tile", draw: indexed::tile },
    Family { name: "MaxUnpool", draw: indexed::unpool },
    Family { name: "regions", draw: indexed::roi },
    Family { name: "TensorScatter", draw: indexed::tensor_scatter },
    Family { name: "MultiHeadAttention behind a past", draw: sequence::behind_a_past },
    Family { name: "GroupQueryAttention with sinks", draw: sequence::with_sinks },
    Family { name: "DeformConv", draw: conv::deformed },
    Family { name: "weights dequantized by block", draw: low_bits::dequantized },
    Family { name: "GatherBlockQuantized", draw: low_bits::gather },
    Family { name: "QAttention", draw: sequence::projected_bytes },
    Family { name: "QMoE", draw: low_bits::experts },
    Family { name: "MatMulBnb4", draw: low_bits::floats_of_4_bits },
    Family { name: "QLinearConcat", draw: low_bits::concat },
    Family { name: "Slice", draw: views::slice },
    Family { name: "blocks of pixels", draw: views::blocks },
    Family { name: "Trilu", draw: views::triangle },
    Family { name: "Where", draw: views::choice },
    Family { name: "NonZero", draw: indexed::non_zero },
    Family { name: "Pow", draw: elements::power },
    Family { name: "Det", draw: elements::det },
    Family { name: "CDist", draw: types::distances },
    Family { name: "CropAndResize", draw: indexed::crop },
    Family { name: "Inverse", draw: elements::inverse },
    Family { name: "windows of a size", draw: elements::window },
    Family { name: "MatMulInteger16", draw: types::integers_of_16_bits },
    Family { name: "MoE", draw: product::experts },
    Family { name: "losses", draw: reduction::class_loss },
    Family { name: "MaxpoolWithMask", draw: pool::masked },
    Family { name: "LinearRegressor", draw: linear::regressor },
    Family { name: "LinearClassifier", draw: linear::classifier },
    Family { name: "support vectors", draw: linear::support_vectors },
    Family { name: "Normalizer", draw: linear::normalizer },
    Family { name: "FeatureVectorizer", draw: linear::feature_vectorizer },
];

/// A case of a family.
pub(crate) fn case_of(family: &Family, draw: &mut Draw) -> Case {
    let mut net = Net::new(draw);
    let outputs = (family.draw)(&mut net);
    net.finish(family.name, &outputs)
}
