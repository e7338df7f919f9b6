//! The versions that new nodes have beside those that are there.

/// Versions of Transpose, Reshape, Unsqueeze and Identity that go together, newest first.
const TOGETHER: [i32; 6] = [25, 24, 23, 21, 13, 1];

/// A Transpose in a model of this operator set.
pub(super) fn transpose(opset: Option<i64>) -> i32 {
    let is_there = |version: &i32| opset.is_none_or(|opset| i64::from(*version) <= opset);
    let known = TOGETHER.into_iter().skip(if opset.is_none() { 4 } else { 0 });
    known.into_iter().find(is_there).unwrap_or(1)
}

/// A Reshape beside a Transpose or Flatten of a version.
pub(super) fn reshape(beside: i32) -> i32 {
    if beside < 13 { 5 } else { beside }
}

/// A Gather beside a Transpose of a version.
pub(super) fn gather(beside: i32) -> i32 {
    if beside < 13 { 1 } else { 13 }
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
