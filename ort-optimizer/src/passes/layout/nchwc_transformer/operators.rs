//! Each kind of node in NCHWc.

use std::ops::Range;

use ort_graph::{Attr, Attrs, Fact, NewNode, Node, ValueId};
use ort_ops::activation::Activation;
use ort_ops::ops::conv::Conv;
use ort_tensor::Tensor;

use super::build::Builder;
use super::channels::Channels;
use super::filters::{filters, of_channels};
use super::nodes::{int, nchwc_node, plain};
use super::survey::{Affine, Filters, Form};
use super::{activations, numbers};
use crate::pass::Refusal;

impl Builder<'_> {
    pub(super) fn conv(&mut self, node: &Node, of: Filters) -> Result<(), Refusal> {
        let ([Some(x), Some(w), ..], Some(y)) = (&*node.inputs, first_output(node)) else {
            return Err(MISSING);
        };
        let (block, n_outputs) = (self.survey.block, of.shape[0]);
        // An input in NCHW with less than a block of channels stays in NCHW.
        let is_nchw = of.form == Form::Nchw && !self.produces_nchwc(*x);
        let x_channels = if is_nchw { None } else { Some(self.channels(*x)?) };
        let padded = Channels::padded(n_outputs, block);
        let outputs = match (of.form, &x_channels) {
            (Form::Depthwise, Some(x)) => x.zeroed(),
            (Form::Grouped, Some(x)) if !x.is_whole() => {
                return Err(Refusal("there is padding among the channels of its groups"));
            }
            _ => padded,
        };
        let inputs = match of.form {
            Form::Nchw | Form::Dense => x_channels.clone(),
            Form::Depthwise => None,
            Form::Grouped => Some(Channels::padded(of.shape[1], block)),
        };
        let group = if of.form == Form::Depthwise { outputs.n_padded() } else { of.group };
        let w = self.reordered(*w, &outputs, inputs.as_ref(), |w| {
            filters(w, &outputs, inputs.as_ref(), block).ok()
        })?;
        let bias = match node.inputs.get(2) {
            Some(&Some(bias)) => {
                Some(self.reordered(bias, &outputs, None, |bias| of_channels(bias, &outputs).ok())?)
            }
            _ => None,
        };
        let x = if is_nchw { self.nchw(*x) } else { self.whole(*x)? };
        let mut inputs = vec![Some(x), Some(w)];
        let mut sum_channels = None;
        if let Some(&Some(sum)) = node.inputs.get(3) {
            let channels = self.channels(sum)?;
            expect_alike(&channels, &outputs)?;
            inputs.extend([bias, Some(self.whole(sum)?)]);
            sum_channels = Some(channels);
        } else if bias.is_some() {
            inputs.push(bias);
        }
        let activation = node.operator::<Conv>();
        let activation = activation.map_or(Activation::None, |conv| conv.activation);
        let channels = numbers::of_conv(&outputs, sum_channels.as_ref(), activation)?;
        let mut attrs = node.attrs.clone();
        attrs.set("group", int(group));
        self.make(nchwc_node(&node.name, "Conv", inputs, attrs), y, channels, false)
    }

    /// A depthwise convolution with a factor and a summand per channel.
    pub(super) fn affine(&mut self, node: &Node, affine: &Affine) -> Result<(), Refusal> {
        let y = first_output(node).ok_or(MISSING)?;
        let x = self.survey.images(node).next().ok_or(MISSING)?;
        let channels = self.channels(x)?.zeroed();
        let wrong = |_| Refusal("its constants are invalid");
        let tensor = |numbers: &[f32], shape: &[usize]| Tensor::from_slice(shape, numbers);
        let n = affine.factors.len();
        let factors = tensor(&affine.factors, &[n, 1, 1, 1]).map_err(|_| wrong(()))?;
        let factors =
            filters(&factors, &channels, None, self.survey.block).map_err(|_| wrong(()))?;
        let mut inputs = vec![Some(self.whole(x)?), Some(self.patch.constant("factors", factors)?)];
        if let Some(summands) = &affine.summands {
            let summands = tensor(summands, &[n]).and_then(|s| of_channels(&s, &channels));
            let summands = summands.map_err(|_| wrong(()))?;
            inputs.push(Some(self.patch.constant("summands", summands)?));
        }
        let attrs = Attrs::new()
            .with("group", int(channels.n_padded()))
            .with("kernel_shape", Attr::Ints(vec![1, 1]));
        self.make(nchwc_node(&node.name, "Conv", inputs, attrs), y, channels, false)
    }

    pub(super) fn pool(&mut self, node: &Node) -> Result<(), Refusal> {
        let is_max = node.op_type == "MaxPool";
        let kept = |name: &str| name != "storage_order";
        let attrs = node.attrs.iter().filter(|(name, _)| kept(name));
        let attrs = attrs.map(|(name, attr)| (name.to_owned(), attr.clone())).collect();
        self.spatial(node, &node.op_type.clone(), attrs, is_max)
    }

    pub(super) fn global_pool(&mut self, node: &Node, op_type: &str) -> Result<(), Refusal> {
        self.spatial(node, op_type, Attrs::new(), op_type == "GlobalMaxPool")
    }

    pub(super) fn upsample(&mut self, node: &Node, attrs: Attrs) -> Result<(), Refusal> {
        let is_nearest = matches!(attrs.get("mode"), Some(Attr::String(mode)) if mode == "nearest");
        self.spatial(node, "Upsample", attrs, is_nearest)
    }

    /// A spatial operator, whose results are elements of its input, or lie between them (and possibly zero).
    fn spatial(
        &mut self,
        node: &Node,
        op_type: &str,
        attrs: Attrs,
        gives_elements: bool,
    ) -> Result<(), Refusal> {
        let (Some(&Some(x)), Some(y)) = (node.inputs.first(), first_output(node)) else {
            return Err(MISSING);
        };
        let channels = self.channels(x)?;
        let channels = if gives_elements { channels } else { numbers::between(&channels)? };
        let x = self.whole(x)?;
        self.make(nchwc_node(&node.name, op_type, vec![Some(x)], attrs), y, channels, false)
    }

    pub(super) fn elementwise(&mut self, node: &Node) -> Result<(), Refusal> {
        let y = first_output(node).ok_or(MISSING)?;
        let images: Vec<ValueId> = self.survey.images(node).collect();
        let mut all = Vec::new();
        for &x in &images {
            all.push(self.channels(x)?);
            expect_alike(&all[0], &all[all.len() - 1])?;
        }
        let channels = numbers::of_function(self.survey.graph, node, &images, &all)?;
        let first = *images.first().ok_or(MISSING)?;
        let are_equal = images.iter().all(|&x| self.survey.extents.are_equal(first, x));
        if are_equal && self.fused(node, (&images, y), &channels)? {
            return Ok(());
        }
        // Where one may be broadcast along the other, channels must not be a broadcast axis.
        let of_channels =
            |id: &ValueId| self.survey.graph.constant(*id).is_some_and(|k| k.len() > 1);
        let numbers: Vec<ValueId> =
            node.inputs.iter().flatten().copied().filter(of_channels).collect();
        let is_split =
            !are_equal || !numbers.is_empty() || images.iter().any(|&x| !self.is_whole(x));
        let mut inputs = Vec::new();
        for &input in &node.inputs {
            inputs.push(match input {
                Some(id) if images.contains(&id) => Some(self.shaped(id, is_split)?),
                Some(id) if numbers.contains(&id) => Some(self.split_numbers(id, &channels)?),
                other => other,
            });
        }
        let new = plain(&node.name, &node.op_type, node.since_version, inputs, node.attrs.clone());
        let new = NewNode { domain: node.domain.clone(), ..new };
        self.make(new, y, channels, is_split)
    }

    /// Fuses the node into the convolution before it, if possible.
    fn fused(
        &mut self,
        node: &Node,
        (images, y): (&[ValueId], ValueId),
        channels: &Channels,
    ) -> Result<bool, Refusal> {
        let value = match *images {
            [x] => {
                let attrs = activations::attrs_of(self.survey.graph, node, self.survey.is_free);
                let (Some((at, value)), Some(attrs)) = (self.open_conv(x), attrs) else {
                    return Ok(false);
                };
                self.change_conv(at, |conv| {
                    attrs.iter().for_each(|(name, attr)| conv.attrs.set(name, attr.clone()));
                });
                value
            }
            [a, b] if a != b && matches!(node.op_type.as_str(), "Add" | "Sum") => {
                // The later of two, since the other is then computed before it.
                let open = [(a, b), (b, a)].into_iter().filter_map(|(x, other)| {
                    let (at, value) = self.open_conv(x)?;
                    (!self.has_sum(at)).then_some((at, value, other))
                });
                let Some((at, value, other)) = open.max() else { return Ok(false) };
                let other = self.whole(other)?;
                self.change_conv(at, |conv| {
                    conv.inputs.resize(3, None);
                    conv.inputs.push(Some(other));
                });
                value
            }
            _ => return Ok(false),
        };
        self.set_blocked(y, value, channels.clone(), false);
        Ok(true)
    }

    pub(super) fn concat(&mut self, node: &Node) -> Result<(), Refusal> {
        let y = first_output(node).ok_or(MISSING)?;
        let (mut inputs, mut parts) = (Vec::new(), Vec::new());
        for &x in node.inputs.iter().flatten() {
            parts.push(self.channels(x)?);
            inputs.push(Some(self.whole(x)?));
        }
        let attrs = node.attrs.clone();
        let new = plain(&node.name, "Concat", node.since_version, inputs, attrs);
        self.make(new, y, Channels::concat(&parts), false)
    }

    pub(super) fn split(&mut self, node: &Node, sizes: &[usize]) -> Result<(), Refusal> {
        let x = node.inputs.first().copied().flatten().ok_or(MISSING)?;
        let channels = self.channels(x)?;
        let (mut start, mut padded, mut outputs) = (0, Vec::new(), Vec::new());
        for (&y, &n) in node.outputs.iter().flatten().zip(sizes) {
            let part = channels.part(start, start + n, self.survey.block);
            let (_, part) = part.ok_or(NOT_WHOLE)?;
            padded.push(i64::try_from(part.n_padded()).unwrap_or(0));
            let value = self.new_value(y, &part, false)?;
            self.set_blocked(y, value, part, false);
            outputs.push(Some(value));
            start += n;
        }
        let mut inputs = vec![Some(self.whole(x)?)];
        let mut attrs = Attrs::new().with("axis", Attr::Int(1));
        // Before version 13 the sizes are an attribute.
        if node.since_version < 13 {
            attrs.set("split", Attr::Ints(padded));
        } else {
            inputs.push(Some(self.ints("split", &padded)?));
        }
        let new = plain(&node.name, "Split", node.since_version, inputs, attrs);
        self.push(NewNode { outputs, ..new });
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node, start: usize, end: usize) -> Result<(), Refusal> {
        let (Some(&Some(x)), Some(y)) = (node.inputs.first(), first_output(node)) else {
            return Err(MISSING);
        };
        let channels = self.channels(x)?;
        let (place, part) = channels.part(start, end, self.survey.block).ok_or(NOT_WHOLE)?;
        let mut inputs = vec![Some(self.whole(x)?)];
        let mut attrs = Attrs::new();
        for (name, n) in [("starts", place), ("ends", place + part.n_padded()), ("axes", 1)] {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            // Before version 10 they are attributes.
            if node.since_version < 10 {
                attrs.set(name, Attr::Ints(vec![n]));
            } else {
                inputs.push(Some(self.ints(name, &[n])?));
            }
        }
        self.make(plain(&node.name, "Slice", node.since_version, inputs, attrs), y, part, false)
    }

    /// The shape of an image: that of the NCHWc value, with the right number of channels.
    pub(super) fn shape_of(&mut self, node: &Node, axes: Range<usize>) -> Result<(), Refusal> {
        let (Some(&Some(x)), Some(y)) = (node.inputs.first(), first_output(node)) else {
            return Err(MISSING);
        };
        let channels = self.channels(x)?;
        let graph = self.survey.graph;
        let x = self.whole(x)?;
        let new = plain(&node.name, "Shape", node.since_version, vec![Some(x)], node.attrs.clone());
        let name = &graph.value(y).name;
        let mut shape = self.patch.value(name.clone(), Fact::UNKNOWN)?;
        self.push(NewNode { outputs: vec![Some(shape)], ..new });
        if axes.contains(&1) && !channels.is_whole() {
            let n = i64::try_from(channels.n()).unwrap_or(i64::MAX);
            let version = self.survey.version(&[7, 13, 14]);
            for (op_type, numbers) in [("Mul", [1, 0, 1, 1]), ("Add", [0, n, 0, 0])] {
                let numbers = self.ints("numbers", &numbers[axes.clone()])?;
                let inputs = vec![Some(shape), Some(numbers)];
                shape = self.patch.value(name.clone(), Fact::UNKNOWN)?;
                let new = plain(&node.name, op_type, version, inputs, Attrs::new());
                self.push(NewNode { outputs: vec![Some(shape)], ..new });
            }
        }
        self.replace(y, shape);
        Ok(())
    }

    pub(super) fn channels_to_end(&mut self, node: &Node) -> Result<(), Refusal> {
        let (Some(&Some(x)), Some(y)) = (node.inputs.first(), first_output(node)) else {
            return Err(MISSING);
        };
        let channels = self.channels(x)?;
        if !channels.is_trailing() {
            return Err(Refusal("there is padding among its channels"));
        }
        let attrs =
            Attrs::new().with("channels", int(channels.n())).with("channels_last", Attr::Int(1));
        let x = self.whole(x)?;
        let graph = self.survey.graph;
        let value = self.patch.value(graph.value(y).name.clone(), graph.fact(y).clone())?;
        let new = nchwc_node(&node.name, "ReorderOutput", vec![Some(x)], attrs);
        self.push(NewNode { outputs: vec![Some(value)], ..new });
        self.replace(y, value);
        Ok(())
    }

    pub(super) fn channels_to_front(&mut self, node: &Node) -> Result<(), Refusal> {
        let (Some(&Some(x)), Some(y)) = (node.inputs.first(), first_output(node)) else {
            return Err(MISSING);
        };
        let attrs = Attrs::new().with("channels_last", Attr::Int(1));
        self.reorder_input(y, self.nchw(x), attrs)
    }
}

const MISSING: Refusal = Refusal("an input or output is missing");
const NOT_WHOLE: Refusal = Refusal("its parts are not whole blocks");

fn first_output(node: &Node) -> Option<ValueId> {
    node.outputs.first().copied().flatten()
}

fn expect_alike(a: &Channels, b: &Channels) -> Result<(), Refusal> {
    let differ = Refusal("the channels of its operands have different layouts");
    if a.is_like(b) { Ok(()) } else { Err(differ) }
}
