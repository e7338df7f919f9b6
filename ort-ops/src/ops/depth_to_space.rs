//! DepthToSpace and SpaceToDepth: channels become blocks of pixels, and the reverse.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, row_major_strides};

use crate::infer::{folded, known_dims, known_shape};
use crate::strided::{Strided, StridedView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "DepthToSpace",
        versions: (1, 28),
        types: DType::is_any,
        build: DepthToSpace::to_space,
    },
    OpDef {
        domain: "",
        name: "SpaceToDepth",
        versions: (1, 28),
        types: DType::is_any,
        build: DepthToSpace::to_depth,
    },
];

/// DepthToSpace: `y[n, c, h·b + i, w·b + j] = x[n, k, h, w]` for blocks of `b × b` pixels, where the
/// channel `k` of `x` counts (i, j, c) in mode DCR, (c, i, j) in mode CRD. SpaceToDepth is the
/// reverse, with a mode from version 28 on.
///
/// `x: [N, C, H, W]`.
///
/// Source: ONNX operator set, DepthToSpace-28 and SpaceToDepth-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthToSpace {
    /// The length of a block's side, 1 or more.
    pub block_size: usize,
    /// Whether a channel counts (c, i, j), not (i, j, c).
    pub is_column_row_depth: bool,
    /// Whether this is SpaceToDepth.
    pub is_reverse: bool,
}

impl DepthToSpace {
    fn to_space(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Self::build(spec, spec.since_version >= 11, false)
    }

    fn to_depth(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Self::build(spec, spec.since_version >= 28, true)
    }

    fn build(
        spec: &NodeSpec<'_>,
        has_mode: bool,
        is_reverse: bool,
    ) -> Result<Arc<dyn Operator>, OpError> {
        let name = "blocksize";
        let size = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
        let block_size = usize::try_from(size).ok().filter(|&size| size > 0);
        let block_size =
            block_size.ok_or_else(|| OpError::AttributeValue { name, found: size.to_string() })?;
        let is_column_row_depth = match if has_mode { spec.string("mode")? } else { None } {
            None | Some("DCR") => false,
            Some("CRD") => true,
            Some(other) => {
                return Err(OpError::AttributeValue { name: "mode", found: other.to_owned() });
            }
        };
        Ok(Arc::new(Self { block_size, is_column_row_depth, is_reverse }))
    }

    fn dims(self, x: &[Dim]) -> Result<[Dim; 4], OpError> {
        let [n, c, h, w] = x else {
            return Err(OpError::InputRank { index: 0, expected: "4", found: x.len() });
        };
        let b = self.block_size;
        let area = b.checked_mul(b).ok_or(OpError::TooLarge)?;
        let times =
            |dim: &Dim, n: usize| if n == 1 { dim.clone() } else { dim.map(|d| d.checked_mul(n)) };
        let by = |dim: &Dim, n: usize| match dim {
            Dim::Known(d) if d % n != 0 => {
                Err(OpError::Shapes { what: "blocks", left: vec![*d], right: vec![n] })
            }
            dim if n == 1 => Ok(dim.clone()),
            dim => Ok(dim.map(|d| Some(d / n))),
        };
        Ok(if self.is_reverse {
            [n.clone(), times(c, area), by(h, b)?, by(w, b)?]
        } else {
            [n.clone(), by(c, area)?, times(h, b), times(w, b)]
        })
    }
}

impl DepthToSpace {
    /// The result for an `x` of a shape.
    ///
    /// # Errors
    /// If it does not consist of whole blocks.
    pub fn view(self, x: &[usize]) -> Result<StridedView, OpError> {
        let shape = known_shape(&self.dims(&known_dims(x))?)?;
        let b = self.block_size;
        // The tensor with more channels has the smaller planes.
        let deep = if self.is_reverse { &shape[..] } else { x };
        let (n, c, h, w) = (deep[0], deep[1] / (b * b), deep[2], deep[3]);
        let wide = [n, c, h, b, w, b];
        let (deep, places) = match self.is_column_row_depth {
            true => ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3]),
            false => ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2]),
        };
        // Axis `i` of the wide tensor is axis `places[i]` of the deep one.
        let (axes, from) = if self.is_reverse {
            let strides = row_major_strides(&wide);
            let mut from = [0; 6];
            places.iter().zip(&strides).for_each(|(&place, &stride)| from[place] = stride);
            (deep, from)
        } else {
            let strides = row_major_strides(&deep);
            (wide, places.map(|place| strides[place]))
        };
        Ok(StridedView { shape, axes: Shape::from_slice(&axes), from: Strided::new(0, &from) })
    }
}

impl Operator for DepthToSpace {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        // bounded: a constant
        let unknown = vec![Dim::Unknown; 4];
        let dims = self.dims(inputs.fact(0)?.dims().unwrap_or(&unknown))?;
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        Ok(self.view(x.shape())?.write(x, &mut outputs[0])?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn node(op_type: &'static str, size: i64, mode: &str) -> Case {
        let mode = Attr::String(mode.into());
        Case::new(op_type, 28).attr("blocksize", Attr::Int(size)).attr("mode", mode)
    }

    #[test]
    fn channels_become_blocks_and_back() {
        let data: Vec<u8> = (0..16).collect();
        let x = tensor(&[1, 8, 1, 2], &data);
        let cases = [
            ("DCR", [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15_u8]),
            ("CRD", [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15]),
        ];
        for (mode, expected) in cases {
            let y = node("DepthToSpace", 2, mode).tensor(std::slice::from_ref(&x));
            assert_eq!(y, Ok(tensor(&[1, 2, 2, 4], &expected)), "{mode}");
            assert_eq!(node("SpaceToDepth", 2, mode).tensor(&[y.unwrap()]), Ok(x.clone()));
        }
        let same = node("DepthToSpace", 1, "DCR").tensor(std::slice::from_ref(&x));
        assert_eq!(same, Ok(x.clone()));
        assert!(node("DepthToSpace", 3, "DCR").tensor(std::slice::from_ref(&x)).is_err());
        assert!(node("SpaceToDepth", 2, "DCR").tensor(std::slice::from_ref(&x)).is_err());
        assert!(node("DepthToSpace", 0, "DCR").tensor(&[x]).is_err());
        let empty = Tensor::zeros(ort_tensor::DType::F32, &[0, 4, 3, 3]).unwrap();
        let y = node("DepthToSpace", 2, "CRD").tensor(&[empty]).unwrap();
        assert_eq!(y.shape(), [0, 1, 6, 6]);
    }
}
