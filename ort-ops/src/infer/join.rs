//! What is known of a value that is one of two: the result of a branch, or of a loop.

use ort_graph::{Dim, Dims, Fact, OpError, TensorType, Type};

/// What holds of both: dimensions that differ are unknown, and so is a rank that does.
///
/// # Errors
/// If the kinds or the element types differ.
pub fn join_facts(a: &Fact, b: &Fact) -> Result<Fact, OpError> {
    join(&a.ty, &b.ty).map(Fact::from)
}

fn join(a: &Type, b: &Type) -> Result<Type, OpError> {
    Ok(match (a, b) {
        (Type::Unknown, _) | (_, Type::Unknown) => Type::Unknown,
        (Type::Tensor(a), Type::Tensor(b)) if a.dtype == b.dtype => {
            let dims = a.dims.as_ref().zip(b.dims.as_ref());
            let dims = dims.filter(|(a, b)| a.len() == b.len()).map(|(a, b)| join_dims(a, b));
            Type::Tensor(TensorType { dtype: a.dtype, dims })
        }
        (Type::Sequence(a), Type::Sequence(b)) => Type::Sequence(Box::new(join(a, b)?)),
        (Type::Optional(a), Type::Optional(b)) => Type::Optional(Box::new(join(a, b)?)),
        (Type::Map { .. }, Type::Map { .. }) if a == b => a.clone(),
        _ => return Err(OpError::Unsupported { what: "a subgraph with another type of result" }),
    })
}

fn join_dims(a: &[Dim], b: &[Dim]) -> Dims {
    let common = |(a, b): (&Dim, &Dim)| if a.equals(b) { a.clone() } else { Dim::Unknown };
    a.iter().zip(b).map(common).collect()
}

#[cfg(test)]
mod tests {
    use ort_tensor::DType;

    use super::*;

    #[test]
    fn only_what_holds_of_both_is_kept() {
        let n = || Dim::Symbol("n".into());
        let a = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Known(1)]);
        let b = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Known(2)]);
        let both = Fact::tensor(DType::F32, [n(), Dim::Known(3), Dim::Unknown]);
        assert_eq!(join_facts(&a, &b), Ok(both.clone()));
        let other_rank = Fact::shaped(DType::F32, &[3]);
        assert_eq!(join_facts(&a, &other_rank), Ok(Fact::unranked(DType::F32)));
        let sequence = |fact: &Fact| Fact::from(Type::Sequence(Box::new(fact.ty.clone())));
        assert_eq!(join_facts(&sequence(&a), &sequence(&b)), Ok(sequence(&both)));
        assert_eq!(join_facts(&a, &Fact::UNKNOWN), Ok(Fact::UNKNOWN));
        for other in [Fact::unranked(DType::F64), sequence(&a)] {
            assert!(join_facts(&a, &other).is_err());
        }
    }
}
