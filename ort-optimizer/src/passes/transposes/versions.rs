//! The versions of new nodes next to existing ones.

/// Versions of Transpose, Reshape, Unsqueeze and Identity that correspond, newest first.
const TOGETHER: [i32; 6] = [25, 24, 23, 21, 13, 1];

/// A Transpose in a model of this operator set.
pub(super) fn transpose(opset: Option<i64>) -> i32 {
    let exists = |version: &i32| opset.is_none_or(|opset| i64::from(*version) <= opset);
    let known = TOGETHER.into_iter().skip(if opset.is_none() { 4 } else { 0 });
    known.into_iter().find(exists).unwrap_or(1)
}

/// The version of a Reshape next to a Transpose or Flatten of this version.
pub(super) fn reshape(other: i32) -> i32 {
    if other < 13 { 5 } else { other }
}

/// The version of a Gather next to a Transpose of this version.
pub(super) fn gather(other: i32) -> i32 {
    if other < 13 { 1 } else { 13 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_an_operator_set_is_taken() {
        let found = [7, 13, 20, 22, 30].map(|opset| transpose(Some(opset)));
        assert_eq!((found, transpose(None)), ([1, 13, 13, 21, 25], 13));
    }
}
