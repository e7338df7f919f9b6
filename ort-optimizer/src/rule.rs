//! A rewrite as data: what to find, when it holds, what to put there.

use ort_graph::{Attrs, Fact, NewNode, Patch, ValueId};
use ort_tensor::{DType, Number, Tensor, with_dtype};

use crate::matching::Match;
use crate::pass::{Refusal, Rewrite, Site};
use crate::pattern::{OpPat, Origin, Pat};

/// `find = replace`, when `when` holds.
pub(crate) struct Rule {
    find: OpPat,
    replace: Pat,
    when: fn(&Match<'_>) -> Result<(), Refusal>,
    shares: bool,
    min_opset: i64,
}

/// The rule that `find`, which must be a node, equals `replace`, whose names are those of `find`.
pub(crate) fn rule(find: Pat, replace: impl Into<Pat>) -> Rule {
    let Pat::Op(find) = find else { unreachable!("invariant: a rule finds a node") };
    let (replace, when) = (replace.into(), |_: &Match<'_>| Ok(()));
    Rule { find: *find, replace, when, shares: false, min_opset: 0 }
}

impl Rule {
    /// The rule holds only where `when` says so; its refusal goes to the report.
    pub(crate) fn when(self, when: fn(&Match<'_>) -> Result<(), Refusal>) -> Self {
        Self { when, ..self }
    }

    /// The rule also holds where others read values within the formula: the nodes that make them
    /// stay for those, and what is new costs no more than what it replaces.
    pub(crate) fn sharing(self) -> Self {
        Self { shares: true, ..self }
    }

    /// The rule is for models that import at least this version of ai.onnx.
    pub(crate) fn since_opset(self, min_opset: i64) -> Self {
        Self { min_opset, ..self }
    }
}

/// A pass made of rules; at each node the first that applies wins.
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    /// The pass over one graph.
    pub(crate) fn start(rules: impl IntoIterator<Item = Rule>) -> Box<dyn Rewrite> {
        Box::new(Rules(rules.into_iter().collect()))
    }
}

impl Rewrite for Rules {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(self.0.iter().map(|rule| rule.find.op_type).collect())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let mut refusal = None;
        let opset = site.options.opset.unwrap_or(0);
        for rule in self.0.iter().filter(|rule| rule.min_opset <= opset) {
            let Some(found) = Match::at(site.graph, site.id, &rule.find) else { continue };
            match rule.apply(&found) {
                Ok(patch) => return Ok(Some(patch)),
                Err(reason) => refusal = refusal.or(Some(reason)),
            }
        }
        refusal.map_or(Ok(None), Err)
    }
}

impl Rule {
    fn apply(&self, found: &Match<'_>) -> Result<Patch, Refusal> {
        if !self.shares && !found.is_private() {
            return Err(Refusal("a value within it is used elsewhere"));
        }
        let (graph, outputs) = (found.graph, &found.root().outputs);
        let is_used = |output: &ValueId| graph.is_used(*output);
        if outputs.iter().skip(1).flatten().any(is_used) {
            return Err(Refusal("another of its outputs is used"));
        }
        self.keeps_rank(found)?;
        (self.when)(found)?;
        let mut patch = Patch::new(graph);
        if let Some(&Some(old)) = outputs.first() {
            let new = make(&self.replace, found, graph.fact(old).dtype(), &mut patch)?;
            patch.replace(old, new.ok_or(Refusal("it is replaced by nothing"))?);
        }
        Ok(patch)
    }

    /// A number that is a tensor of one element may add dimensions to what it meets; with ranks
    /// known, the patch is refused if they differ.
    fn keeps_rank(&self, found: &Match<'_>) -> Result<(), Refusal> {
        let rank = found.root_fact().and_then(Fact::rank);
        let is_kept = rank.is_some()
            && match self.replace {
                Pat::Var(name) => found.fact(name).rank() == rank,
                _ => true,
            };
        if found.number_rank() == 0 || is_kept { Ok(()) } else { Err(RANK) }
    }
}

const RANK: Refusal = Refusal("its rank may change");

/// The value of a formula, `None` for an absent one; what is not there yet is made. Numbers have the
/// type `dtype`.
fn make(
    pat: &Pat,
    found: &Match<'_>,
    dtype: Option<DType>,
    patch: &mut Patch,
) -> Result<Option<ValueId>, Refusal> {
    let op = match pat {
        Pat::Var(name) | Pat::Constant(name) => return Ok(Some(found.value(name))),
        Pat::Absent => return Ok(None),
        Pat::Number(number) => {
            let unknown = Refusal("the type of a constant is not known");
            let dtype = dtype.ok_or(unknown)?;
            let tensor = with_dtype!(dtype, number, T => Tensor::scalar(T::from_f64(*number)),
                else => return Err(unknown));
            return Ok(Some(patch.constant("", tensor)?));
        }
        Pat::Made(tensor) => return Ok(Some(patch.constant("", tensor(found)?)?)),
        Pat::Named(_, pat) => return make(pat, found, dtype, patch),
        Pat::Op(op) => op,
    };
    let inputs = op.inputs.iter().map(|input| make(input, found, dtype, patch));
    let mut inputs = inputs.collect::<Result<Vec<_>, Refusal>>()?;
    inputs.truncate(inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    let (since_version, attrs) = match op.origin {
        Origin::Like(label) => {
            let like = found.get_node(label);
            like.map_or((13, Attrs::new()), |node| (node.since_version, node.attrs.clone()))
        }
        Origin::New(since_version, attrs) => (since_version, attrs(found)),
        Origin::Following(spec) => spec(found),
    };
    let output = patch.output_of(NewNode {
        name: found.root().name.clone(),
        domain: op.domain.to_owned(),
        op_type: op.op_type.to_owned(),
        since_version,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs,
    })?;
    Ok(Some(output))
}
