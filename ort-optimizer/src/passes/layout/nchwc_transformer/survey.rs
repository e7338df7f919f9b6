//! Which nodes support NCHWc, independently of the others.

use std::any::Any;

use ort_graph::{Attr, Attrs, Dim, Graph, IdMap, Node, NodeId, ValueId};
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::batch_normalization::BatchNormalization;
use ort_ops::ops::conv::Conv;
use ort_ops::ops::max_pool::MaxPool;
use ort_tensor::{DType, Tensor};

use super::activations;
use super::axes;
use super::extents::Extents;
use super::upsample;
use crate::nchwc::is_elementwise;
use crate::options::{Level, Options};
use crate::pass::Refusal;

/// A graph, and how its nodes could work in NCHWc.
#[derive(Debug)]
pub(super) struct Survey<'g> {
    pub(super) graph: &'g Graph,
    /// Nodes, each after those it depends on.
    pub(super) order: Vec<NodeId>,
    /// How many channels a block has.
    pub(super) block: usize,
    /// Whether forms are allowed that ONNX Runtime does not have.
    pub(super) is_free: bool,
    /// The version of ai.onnx that the model imports; 0 if that is not known.
    opset: i64,
    pub(super) extents: Extents,
    pub(super) kinds: IdMap<NodeId, Kind>,
    pub(super) refused: IdMap<NodeId, Refusal>,
}

/// What a node does with images.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Convolves them.
    Conv(Filters),
    /// Takes the largest or the mean of each window.
    Pool {
        /// How many elements a window has.
        n_taps: usize,
    },
    /// The maximum or mean over the spatial axes: the operator.
    GlobalPool(&'static str),
    /// A function of elements, of one or of several images.
    Elementwise,
    /// `factor · x + summand`, per channel.
    Affine(Affine),
    /// Concatenates channels.
    Concat,
    /// Splits channels; how many each part has.
    Split(Vec<usize>),
    /// The channels from the first to (not including) the second.
    Slice(usize, usize),
    /// Enlarges images: the attributes of Upsample.
    Upsample(Attrs),
    /// Transposes to NHWC.
    ToLast,
    /// Transposes from NHWC.
    FromLast,
    /// Returns its shape, from the first axis to (not including) the second.
    Shape(usize, usize),
}

/// The filters of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filters {
    pub(super) form: Form,
    pub(super) group: usize,
    /// `[O, I, KH, KW]`.
    pub(super) shape: [usize; 4],
    /// Whether both windows and steps are those of Winograd's minimal filtering: 3, and 1.
    pub(super) is_minimal: bool,
}

/// What a filter reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All channels of an image that has fewer than a block, and can stay in NCHW.
    Nchw,
    /// All channels.
    Dense,
    /// The channels of its group, in whole blocks.
    Grouped,
    /// One channel, which no other filter reads.
    Depthwise,
}

/// A factor and a summand for each channel.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub(super) factors: Vec<f32>,
    pub(super) summands: Option<Vec<f32>>,
}

/// ONNX Runtime's ReorderInput requires a multiple of this many channels.
const GRANULARITY: usize = 4;

impl<'g> Survey<'g> {
    /// `None` if there is no convolution, or the graph already contains NCHWc.
    pub(super) fn of(graph: &'g Graph, options: &Options) -> Option<Self> {
        let block = options.layout_block.filter(|&block| block > 1)?;
        let mut nodes = graph.node_ids().map(|id| graph.node(id));
        if !nodes.any(|node| (&*node.op as &dyn Any).is::<Conv>()) {
            return None;
        }
        let order = graph.topological_order().ok()?;
        let extents = Extents::of(graph, &order);
        let (kinds, refused) = (IdMap::default(), IdMap::default());
        let is_free = options.level == Level::All;
        let opset = options.opset.unwrap_or(0);
        let mut survey = Self { graph, order, block, is_free, opset, extents, kinds, refused };
        for id in survey.order.clone() {
            match survey.kind(graph.node(id)) {
                Ok(Some(kind)) => drop(survey.kinds.insert(id, kind)),
                Ok(None) => {}
                Err(refusal) => drop(survey.refused.insert(id, refusal)),
            }
        }
        Some(survey)
    }

    /// How many channels a value has, if it is an image that is computed or given in a run.
    pub(super) fn channels(&self, id: ValueId) -> Option<usize> {
        let fact = self.graph.fact(id);
        if fact.dtype() != Some(DType::F32) || self.graph.constant(id).is_some() {
            return None;
        }
        match fact.dims()? {
            [_, Dim::Known(channels @ 1..), _, _] => Some(*channels),
            _ => None,
        }
    }

    /// The newest of these versions of an operator that the model has, or else the first.
    pub(super) fn version(&self, versions: &[i32]) -> i32 {
        let had = versions.iter().rev().find(|&&version| i64::from(version) <= self.opset);
        had.or(versions.first()).copied().unwrap_or(1)
    }

    /// Whether ReorderInput supports this many channels.
    pub(super) const fn can_reorder(&self, channels: usize) -> bool {
        self.is_free || channels.is_multiple_of(GRANULARITY)
    }

    /// The images that a node reads in NCHWc, if it works in NCHWc.
    pub(super) fn images(&self, node: &Node) -> impl Iterator<Item = ValueId> {
        node.inputs.iter().flatten().copied().filter(|&id| self.channels(id).is_some())
    }

    /// Whether the value has exactly one reader.
    pub(super) fn is_private(&self, id: ValueId) -> bool {
        self.graph.consumers(id).len() == 1 && !self.graph.is_output(id)
    }

    fn kind(&self, node: &Node) -> Result<Option<Kind>, Refusal> {
        let is_image = |slot: Option<&Option<ValueId>>| {
            slot.copied().flatten().and_then(|id| self.channels(id)).is_some()
        };
        let has_one_output = node.outputs.iter().skip(1).all(Option::is_none);
        let op = &*node.op as &dyn Any;
        if let Some(conv) = op.downcast_ref::<Conv>() {
            return self.conv(node, conv).map(Some);
        }
        if node.op_type == "Transpose" && node.domain.is_empty() {
            return Ok(self.transpose(node));
        }
        if node.op_type == "Shape" && is_image(node.inputs.first()) {
            return Ok(axes::of_shape(node).map(|(start, end)| Kind::Shape(start, end)));
        }
        if !is_image(node.outputs.first()) || !(has_one_output || node.op_type == "Split") {
            return Ok(None);
        }
        if is_elementwise(node) {
            return self.elementwise(node).map(Some);
        }
        if !node.domain.is_empty() {
            return Ok(None);
        }
        if node.op_type == "Concat" {
            return Ok(self.concat(node));
        }
        if !is_image(node.inputs.first()) {
            return Ok(None);
        }
        Ok(match node.op_type.as_str() {
            "MaxPool" | "AveragePool" => return self.pool(node).map(Some),
            "GlobalAveragePool" => Some(Kind::GlobalPool("GlobalAveragePool")),
            "GlobalMaxPool" => Some(Kind::GlobalPool("GlobalMaxPool")),
            "ReduceMean" if axes::are_spatial(self.graph, node) => {
                Some(Kind::GlobalPool("GlobalAveragePool"))
            }
            "ReduceMax" if axes::are_spatial(self.graph, node) => {
                Some(Kind::GlobalPool("GlobalMaxPool"))
            }
            "BatchNormalization" => return self.batch_normalization(node).map(Some),
            "Resize" | "Upsample" => return self.upsample(node).map(Some),
            "Split" => self.split(node),
            "Slice" => {
                let channels = node.inputs[0].and_then(|x| self.channels(x));
                let range = channels.and_then(|n| axes::of_slice(self.graph, node, n));
                range.map(|(start, end)| Kind::Slice(start, end))
            }
            _ => None,
        })
    }

    fn conv(&self, node: &Node, conv: &Conv) -> Result<Kind, Refusal> {
        let weights = node.inputs.get(1).copied().flatten();
        let weights = weights.and_then(|id| self.graph.constant(id));
        let weights = weights.ok_or(Refusal("its filters are not constant"))?;
        let &[o, i, kh, kw] = weights.shape() else {
            return Err(Refusal("it is not a convolution of images"));
        };
        let bias = node.inputs.get(2).copied().flatten();
        let is_computed = bias.is_some_and(|id| self.graph.constant(id).is_none());
        if weights.dtype() != DType::F32 || weights.is_empty() || is_computed {
            return Err(Refusal("its filters are not float32, or its bias is not constant"));
        }
        let x = node.inputs[0].and_then(|x| self.channels(x));
        let y = node.outputs.first().copied().flatten().and_then(|y| self.channels(y));
        if x.is_none() || y.is_none() {
            return Err(Refusal("its number of channels is not known"));
        }
        if let Some(&Some(sum)) = node.inputs.get(3)
            && self.channels(sum).is_none()
        {
            return Err(Refusal("its summand is constant"));
        }
        if !activations::is_allowed(conv.activation, self.is_free) {
            return Err(Refusal("its activation is not supported in NCHWc"));
        }
        let form = match conv.group {
            1 if i < self.block => Form::Nchw,
            1 => Form::Dense,
            group if i == 1 && o == group => Form::Depthwise,
            group if i.is_multiple_of(self.block) && (o / group).is_multiple_of(self.block) => {
                Form::Grouped
            }
            _ => return Err(Refusal("its groups are not whole blocks")),
        };
        let steps = [&conv.window.strides, &conv.window.dilations];
        let mut steps = steps.into_iter().flat_map(|steps| steps.iter().flatten());
        let is_minimal = [kh, kw] == [3, 3] && steps.all(|&step| step == 1);
        Ok(Kind::Conv(Filters { form, group: conv.group, shape: [o, i, kh, kw], is_minimal }))
    }

    fn pool(&self, node: &Node) -> Result<Kind, Refusal> {
        let op = &*node.op as &dyn Any;
        let average = op.downcast_ref::<AveragePool>();
        let (window, is_allowed) = match op.downcast_ref::<MaxPool>() {
            Some(pool) => (&pool.window, !pool.is_column_major),
            None => {
                let pool = average.ok_or(Refusal("it is not a pool"))?;
                let dilations = pool.window.dilations.as_deref().unwrap_or_default();
                let is_dilated = dilations.iter().any(|&dilation| dilation > 1);
                let counts_beyond = pool.window.is_ceil && pool.counts_padding;
                (&pool.window, !is_dilated && !counts_beyond)
            }
        };
        match &window.kernel {
            Some(kernel) if is_allowed => Ok(Kind::Pool { n_taps: kernel.iter().product() }),
            _ => Err(Refusal("such a pool is not supported in NCHWc")),
        }
    }

    fn elementwise(&self, node: &Node) -> Result<Kind, Refusal> {
        let y = node.outputs.first().copied().flatten().and_then(|y| self.channels(y));
        let mut n_images = 0;
        for &id in node.inputs.iter().flatten() {
            match (self.graph.constant(id), self.channels(id)) {
                (Some(constant), _) if constant.len() == 1 && constant.shape().len() <= 4 => {}
                (Some(constant), _) => {
                    if let Some(affine) = self.affine(node) {
                        return Ok(Kind::Affine(affine));
                    }
                    let wrong = Refusal("its constant has more than one number for each channel");
                    y.and_then(|y| numbers_of_channels(constant, y)).ok_or(wrong)?;
                }
                (None, channels) if channels.is_some() && channels == y => n_images += 1,
                _ => return Err(Refusal("its operands are not images of the same channels")),
            }
        }
        match n_images {
            0 => Err(Refusal("its operands are not images of the same channels")),
            _ => Ok(Kind::Elementwise),
        }
    }

    fn affine(&self, node: &Node) -> Option<Affine> {
        let [Some(a), Some(b)] = *node.inputs else { return None };
        let is_swapped = self.graph.constant(a).is_some();
        let (x, k) = if is_swapped { (b, a) } else { (a, b) };
        let channels = self.channels(x)?;
        let k = numbers_of_channels(self.graph.constant(k)?, channels)?;
        let ones = || vec![1.0; channels];
        match node.op_type.as_str() {
            "Mul" => Some(Affine { factors: k, summands: None }),
            "Add" => Some(Affine { factors: ones(), summands: Some(k) }),
            "Sub" if !is_swapped => {
                Some(Affine { factors: ones(), summands: Some(k.iter().map(|k| -k).collect()) })
            }
            _ => None,
        }
    }

    fn batch_normalization(&self, node: &Node) -> Result<Kind, Refusal> {
        let wrong = Refusal("it normalizes by more than per-channel constants");
        let op = node.operator::<BatchNormalization>().ok_or(wrong)?;
        if op.is_training || !op.is_spatial {
            return Err(wrong);
        }
        let channels = node.inputs[0].and_then(|x| self.channels(x)).ok_or(wrong)?;
        let constants = node.inputs.iter().skip(1).map(|id| {
            let constant = self.graph.constant((*id)?)?.as_slice::<f32>().ok()?;
            Some(constant).filter(|constant| constant.len() == channels)
        });
        let constants: Vec<&[f32]> = constants.collect::<Option<_>>().ok_or(wrong)?;
        let &[scale, bias, mean, variance] = constants.as_slice() else { return Err(wrong) };
        let factors = scale.iter().zip(variance);
        let factors: Vec<f32> = factors.map(|(s, v)| s / (v + op.epsilon).sqrt()).collect();
        let moved = bias.iter().zip(mean).zip(&factors);
        let summands = moved.map(|((b, mean), factor)| b - mean * factor).collect();
        Ok(Kind::Affine(Affine { factors, summands: Some(summands) }))
    }

    fn concat(&self, node: &Node) -> Option<Kind> {
        let is_of_channels = matches!(node.attrs.get("axis"), Some(Attr::Int(1 | -3)));
        let are_images =
            node.inputs.iter().all(|id| id.is_some_and(|x| self.channels(x).is_some()));
        (is_of_channels && are_images).then_some(Kind::Concat)
    }

    fn split(&self, node: &Node) -> Option<Kind> {
        let is_of_channels = matches!(node.attrs.get("axis"), Some(Attr::Int(1 | -3)));
        let sizes = node.outputs.iter().map(|id| self.channels((*id)?)).collect::<Option<_>>()?;
        is_of_channels.then_some(Kind::Split(sizes))
    }

    fn upsample(&self, node: &Node) -> Result<Kind, Refusal> {
        let scales = upsample::scales(self.graph, node);
        let scales = scales.ok_or(Refusal("it does not enlarge by whole factors"))?;
        let attrs = upsample::attrs(node, scales);
        attrs.map(Kind::Upsample).ok_or(Refusal("such a Resize is not supported in NCHWc"))
    }

    fn transpose(&self, node: &Node) -> Option<Kind> {
        let Some(Attr::Ints(perm)) = node.attrs.get("perm") else { return None };
        let x = node.inputs.first().copied().flatten()?;
        let y = node.outputs.first().copied().flatten()?;
        match **perm {
            [0, 2, 3, 1] if self.channels(x).is_some() => Some(Kind::ToLast),
            [0, 3, 1, 2] => {
                let channels = self.channels(y)?;
                // A convolution of fewer channels reads them in NCHW.
                let is_image = self.graph.constant(x).is_none() && channels >= self.block;
                (is_image && self.can_reorder(channels)).then_some(Kind::FromLast)
            }
            _ => None,
        }
    }
}

/// The numbers of a constant with one for each channel, and 1 on all other axes.
pub(super) fn numbers_of_channels(constant: &Tensor, channels: usize) -> Option<Vec<f32>> {
    let shape = constant.shape();
    let is_of_channels = match *shape {
        [c, 1, 1] | [1, c, 1, 1] => c == channels,
        _ => false,
    };
    is_of_channels.then(|| constant.as_slice::<f32>().ok().map(<[f32]>::to_vec))?
}
