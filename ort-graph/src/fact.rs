//! What is known of a value before it is computed.

// collects are bounded: by the rank and by MAX_INTS

use std::fmt;

use ort_tensor::{DType, Shape, Tensor, Value, n_elements};

use crate::dim::{Dim, Dims};

/// The type of a value, and its contents where they are constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The type.
    pub ty: Type,
    /// The contents, if they are the same in every run. Agrees with `ty`.
    pub constant: Option<Tensor>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Type {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A tensor.
    Tensor(TensorType),
    /// A sequence of values of one type.
    Sequence(Box<Type>),
    /// A map from integers or strings.
    Map {
        /// The element type of the keys.
        key: DType,
        /// The type of each value.
        value: Box<Type>,
    },
    /// A value or none.
    Optional(Box<Type>),
}

/// Element type and dimensions of a tensor; no dimensions means that not even the rank is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The dimensions, if the rank is known.
    pub dims: Option<Dims>,
}

/// Two facts about one value that cannot both hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not {expected}")]
pub struct TypeConflict {
    /// The type that was known before.
    pub expected: Box<Type>,
    /// The type that was found.
    pub found: Box<Type>,
}

impl Fact {
    /// Nothing is known.
    pub const UNKNOWN: Fact = Fact { ty: Type::Unknown, constant: None };
    /// Only integer tensors of at most so many elements may be a shape or a list of axes.
    pub const MAX_INTS: usize = 1 << 16;

    /// A tensor with these dimensions.
    pub fn tensor(dtype: DType, dims: impl IntoIterator<Item = Dim>) -> Self {
        let dims = Some(dims.into_iter().collect());
        Type::Tensor(TensorType { dtype, dims }).into()
    }

    /// A tensor of unknown rank.
    pub fn unranked(dtype: DType) -> Self {
        Type::Tensor(TensorType { dtype, dims: None }).into()
    }

    /// A tensor whose every dimension is known.
    pub fn shaped(dtype: DType, shape: &[usize]) -> Self {
        Self::tensor(dtype, shape.iter().map(|&n| Dim::Known(n)))
    }

    /// A tensor whose contents are known.
    pub fn constant(tensor: Tensor) -> Self {
        Self { constant: Some(tensor.clone()), ..Self::shaped(tensor.dtype(), tensor.shape()) }
    }

    /// The type of an actual value.
    pub fn of_value(value: &Value) -> Self {
        Type::of_value(value).into()
    }

    /// The tensor type; `None` if it is unknown or no tensor.
    pub const fn as_tensor(&self) -> Option<&TensorType> {
        match &self.ty {
            Type::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The element type of a tensor.
    pub fn dtype(&self) -> Option<DType> {
        self.as_tensor().map(|tensor| tensor.dtype)
    }

    /// The dimensions of a tensor of known rank.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.as_tensor()?.dims.as_deref()
    }

    /// The rank of a tensor, if it is known.
    pub fn rank(&self) -> Option<usize> {
        self.dims().map(<[Dim]>::len)
    }

    /// The shape of a tensor whose every dimension is known.
    pub fn shape(&self) -> Option<Shape> {
        self.dims()?.iter().map(Dim::known).collect()
    }

    /// Whether a tensor can have these dimensions: the product of those that are known does not overflow.
    pub(crate) fn has_size(&self) -> bool {
        let known = |dims: &[Dim]| dims.iter().filter_map(Dim::known).collect::<Shape>();
        self.dims().is_none_or(|dims| n_elements(&known(dims)).is_some())
    }

    /// The contents of a constant int64 or int32 tensor, if it may be a shape or a list of axes: one of more than
    /// [`Fact::MAX_INTS`] elements is data.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let constant =
            self.constant.as_ref().filter(|constant| constant.len() <= Self::MAX_INTS)?;
        match constant.dtype() {
            DType::I64 => constant.as_slice::<i64>().ok().map(<[i64]>::to_vec),
            DType::I32 => {
                let ints = constant.as_slice::<i32>().ok()?;
                Some(ints.iter().copied().map(i64::from).collect())
            }
            _ => None,
        }
    }

    /// What is known if both hold.
    ///
    /// # Errors
    /// If the two contradict each other.
    pub fn unify(&self, other: &Fact) -> Result<Fact, TypeConflict> {
        let ty = self.ty.unify(&other.ty).ok_or_else(|| TypeConflict {
            expected: Box::new(self.ty.clone()),
            found: Box::new(other.ty.clone()),
        })?;
        let constant = self.constant.clone().or_else(|| other.constant.clone());
        Ok(Fact { ty, constant })
    }
}

impl Type {
    /// The type of an actual value.
    pub fn of_value(value: &Value) -> Type {
        match value {
            Value::Tensor(tensor) => Fact::shaped(tensor.dtype(), tensor.shape()).ty,
            Value::Sequence(items) => {
                let items = items.iter().map(Type::of_value);
                let item = items.reduce(|a, b| a.join(&b).unwrap_or_default());
                Type::Sequence(Box::new(item.unwrap_or_default()))
            }
            Value::Map(map) => Type::Map {
                key: map.keys.dtype(),
                value: Box::new(Type::Tensor(TensorType {
                    dtype: map.values.dtype(),
                    dims: Some(Dims::new()),
                })),
            },
            Value::Optional(inner) => {
                let inner = inner.as_ref().map_or(Type::Unknown, |value| Type::of_value(value));
                Type::Optional(Box::new(inner))
            }
            _ => Type::Unknown,
        }
    }

    /// What is known if both hold; `None` if they contradict each other.
    pub fn unify(&self, other: &Type) -> Option<Type> {
        match (self, other) {
            (Type::Unknown, ty) | (ty, Type::Unknown) => Some(ty.clone()),
            (Type::Tensor(a), Type::Tensor(b)) => a.unify(b).map(Type::Tensor),
            (Type::Sequence(a), Type::Sequence(b)) => Some(Type::Sequence(Box::new(a.unify(b)?))),
            (Type::Map { key, value }, Type::Map { key: other_key, value: other }) => {
                (key == other_key).then_some(())?;
                Some(Type::Map { key: *key, value: Box::new(value.unify(other)?) })
            }
            (Type::Optional(a), Type::Optional(b)) => Some(Type::Optional(Box::new(a.unify(b)?))),
            _ => None,
        }
    }

    /// What is known of a value that is of one or the other type: dimensions that differ are
    /// unknown, and so is a rank that does. `None` if kinds or element types differ.
    pub fn join(&self, other: &Type) -> Option<Type> {
        match (self, other) {
            (Type::Unknown, _) | (_, Type::Unknown) => Some(Type::Unknown),
            (Type::Tensor(a), Type::Tensor(b)) => a.join(b).map(Type::Tensor),
            (Type::Sequence(a), Type::Sequence(b)) => Some(Type::Sequence(Box::new(a.join(b)?))),
            (Type::Optional(a), Type::Optional(b)) => Some(Type::Optional(Box::new(a.join(b)?))),
            (Type::Map { .. }, Type::Map { .. }) => (self == other).then(|| self.clone()),
            _ => None,
        }
    }
}

impl TensorType {
    fn join(&self, other: &TensorType) -> Option<TensorType> {
        (self.dtype == other.dtype).then_some(())?;
        let common = |(a, b): (&Dim, &Dim)| if a.equals(b) { a.clone() } else { Dim::Unknown };
        let dims = match (&self.dims, &other.dims) {
            (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(common).collect()),
            _ => None,
        };
        Some(TensorType { dtype: self.dtype, dims })
    }

    fn unify(&self, other: &TensorType) -> Option<TensorType> {
        (self.dtype == other.dtype).then_some(())?;
        let dims = match (&self.dims, &other.dims) {
            (None, dims) | (dims, None) => dims.clone(),
            (Some(a), Some(b)) => {
                (a.len() == b.len()).then_some(())?;
                Some(a.iter().zip(b).map(|(a, b)| a.unify(b)).collect::<Option<Dims>>()?)
            }
        };
        Some(TensorType { dtype: self.dtype, dims })
    }
}

impl From<Type> for Fact {
    fn from(ty: Type) -> Self {
        Fact { ty, constant: None }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Unknown => f.write_str("unknown"),
            Type::Tensor(tensor) => tensor.fmt(f),
            Type::Sequence(inner) => write!(f, "seq({inner})"),
            Type::Map { key, value } => write!(f, "map({key}, {value})"),
            Type::Optional(inner) => write!(f, "optional({inner})"),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        match &self.dims {
            None => f.write_str("...")?,
            Some(dims) => {
                for (i, dim) in dims.iter().enumerate() {
                    write!(f, "{}{dim}", if i == 0 { "" } else { "," })?;
                }
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unifying_keeps_the_most_that_is_known() {
        let a = Fact::tensor(DType::F32, [Dim::Symbol("n".into()), Dim::Known(3)]);
        let b = Fact::tensor(DType::F32, [Dim::Known(2), Dim::Unknown]);
        assert_eq!(a.unify(&b).unwrap().shape().unwrap().as_slice(), [2, 3]);
        assert_eq!(Fact::unranked(DType::F32).unify(&a).unwrap(), a);
    }

    #[test]
    fn joining_keeps_only_what_both_have() {
        let n = || Dim::Symbol("n".into());
        let a = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Known(1)]).ty;
        let b = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Known(2)]).ty;
        let both = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Unknown]).ty;
        let other_rank = Fact::shaped(DType::F32, &[3]).ty;
        let sequence = |ty: &Type| Type::Sequence(Box::new(ty.clone()));
        assert_eq!(a.join(&b).as_ref(), Some(&both));
        assert_eq!(a.join(&other_rank), Some(Fact::unranked(DType::F32).ty));
        assert_eq!(sequence(&a).join(&sequence(&b)), Some(sequence(&both)));
        assert_eq!(a.join(&Type::Unknown), Some(Type::Unknown));
        for other in [Fact::unranked(DType::F64).ty, sequence(&a)] {
            assert_eq!(a.join(&other), None);
        }
    }

    #[test]
    fn a_sequence_has_the_common_type_of_its_items() {
        let item = |shape: &[usize]| Value::Tensor(Tensor::zeros(DType::I8, shape).unwrap());
        let of_items = |items: Vec<Value>| Type::of_value(&Value::Sequence(items));
        let sequence = |fact: Fact| Type::Sequence(Box::new(fact.ty));
        let mixed = Fact::tensor(DType::I8, [Dim::Known(2), Dim::Unknown]);
        assert_eq!(of_items(vec![item(&[2, 1]), item(&[2, 5])]), sequence(mixed));
        assert_eq!(of_items(vec![]), sequence(Fact::UNKNOWN));
    }

    #[test]
    fn contradictions_name_both_types() {
        let a = Fact::shaped(DType::F32, &[2, 3]);
        for other in [Fact::shaped(DType::F32, &[2, 4]), Fact::shaped(DType::I32, &[2, 3])] {
            let conflict = a.unify(&other).unwrap_err();
            assert_eq!(conflict.to_string(), format!("{} is not float[2,3]", other.ty));
        }
    }
}
