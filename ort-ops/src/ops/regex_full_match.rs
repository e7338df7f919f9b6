//! RegexFullMatch: whether whole strings match a pattern.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{Bool, DType, Inputs, Output, Pace};

use crate::infer::tensor_fact;
use crate::pattern::Pattern;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "RegexFullMatch",
    versions: (20, 20),
    types: DType::is_string,
    build: RegexFullMatch::build,
}];

/// RegexFullMatch: `y[i]` is whether all of `x[i]` matches the pattern. The pattern is a [`Pattern`].
///
/// Source: ONNX operator set, RegexFullMatch-20.
#[derive(Clone, Debug)]
pub struct RegexFullMatch {
    /// The text of the pattern.
    pub pattern: String,
    parsed: Pattern,
}

impl RegexFullMatch {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "pattern";
        let pattern = spec.string(name)?.ok_or(OpError::MissingAttribute { name })?;
        Ok(Arc::new(Self { parsed: Pattern::new(name, pattern)?, pattern: pattern.to_owned() }))
    }
}

impl Operator for RegexFullMatch {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_string)?;
        Ok(vec![tensor_fact(DType::Bool, inputs.fact(0)?.dims().map(Into::into))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let y = outputs[0].tensor(DType::Bool, x.shape())?.into_slice::<Bool>()?;
        let (mut matcher, mut pace) = (self.parsed.matcher()?, Pace::new());
        for (y, text) in y.iter_mut().zip(x.as_strings()?) {
            *y = matcher.is_match(text, &mut pace)?.into();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, Tensor};

    use crate::case::{Case, tensor};

    #[test]
    fn only_whole_strings_match() {
        let texts = ["www.google.com", "a.com.", "", "é", "a\nb"];
        let cases = [
            (r"www\.[\w.-]+\.\bcom\b", Some([true, false, false, false, false])),
            (r".", Some([false, false, false, true, false])),
            (r"a|a\.com\.", Some([false, true, false, false, false])),
            (r"", Some([false, false, true, false, false])),
            (r"(?s).*", Some([true; 5])),
            (r"^\w$", Some([false; 5])),
            (r"(", None),
            (r"a)(?:b", None),
            (r"\pL", Some([false, false, false, true, false])),
            (r"\pX", None),
        ];
        for (pattern, expected) in cases {
            let x = Tensor::from_strings(&[5], texts.map(str::to_owned).to_vec()).unwrap();
            let case =
                Case::new("RegexFullMatch", 20).attr("pattern", Attr::String(pattern.into()));
            let expected = expected.map(|flags| tensor(&[5], &flags.map(Bool::from)));
            assert_eq!(case.tensor(&[x]).ok(), expected, "{pattern}");
        }
    }
}
