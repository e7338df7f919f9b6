//! A rewrite as data: a pattern, a condition, and a replacement.

use std::rc::Rc;

use ort_graph::{Attrs, Fact, NewNode, Patch, ValueId};
use ort_tensor::{DType, Number, Tensor, with_dtype};

use crate::matching::Match;
use crate::pass::{Formula, Refusal, Rewrite, Site};
use crate::pattern::{OpPat, Origin, Pat};

/// `find = replace`, when `when` holds.
pub(crate) struct Rule {
    find: Rc<OpPat>,
    replace: Pat,
    when: fn(&Match<'_>) -> Result<(), Refusal>,
    shares: bool,
    min_opset: i64,
}

/// The rule that `find`, which must be a node, equals `replace`, whose names are those of `find`.
pub(crate) fn rule(find: Pat, replace: impl Into<Pat>) -> Rule {
    let Pat::Op(find) = find else { unreachable!("invariant: a rule finds a node") };
    let (replace, when) = (replace.into(), |_: &Match<'_>| Ok(()));
    Rule { find, replace, when, shares: false, min_opset: 0 }
}

impl Rule {
    /// The rule applies only where `when` accepts; a refusal is reported.
    pub(crate) fn when(self, when: fn(&Match<'_>) -> Result<(), Refusal>) -> Self {
        Self { when, ..self }
    }

    /// The rule also applies where other nodes read values within the formula: the nodes that compute them are kept
    /// for those, and the new nodes cost no more than what they replace.
    pub(crate) fn sharing(self) -> Self {
        Self { shares: true, ..self }
    }

    /// The rule is for models that import at least this version of ai.onnx.
    pub(crate) fn since_opset(self, min_opset: i64) -> Self {
        Self { min_opset, ..self }
    }
}

/// A pass made of rules; at each node the first that applies wins.
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// Whether the graph may hold what each rule finds.
    may_hold: Vec<bool>,
}

impl Rules {
    /// The pass.
    pub(crate) fn start(rules: impl IntoIterator<Item = Rule>) -> Box<dyn Rewrite> {
        let rules: Vec<Rule> = rules.into_iter().collect();
        let may_hold = vec![true; rules.len()];
        Box::new(Rules { rules, may_hold })
    }
}

impl Rewrite for Rules {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(self.rules.iter().map(|rule| rule.find.op_type).collect())
    }

    fn formulas(&self) -> Vec<Formula> {
        let formula = |rule: &Rule| {
            let mut makes = Vec::new();
            rule.replace.add_operators(&mut makes);
            Formula { needs: rule.find.operators(), makes }
        };
        self.rules.iter().map(formula).collect()
    }

    fn begin(&mut self, may_hold: &[bool]) {
        self.may_hold.copy_from_slice(may_hold);
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let mut refusal = None;
        let opset = site.options.opset.unwrap_or(0);
        let rules = self.rules.iter().zip(&self.may_hold).filter(|(_, may_hold)| **may_hold);
        for (rule, _) in rules.filter(|(rule, _)| rule.min_opset <= opset) {
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
        let Some(&Some(old)) = outputs.first() else { return Ok(Patch::new(graph)) };
        let mut maker = Maker::new(found, graph.fact(old).dtype());
        let new = maker.make(&self.replace)?.ok_or(Refusal("it is replaced by nothing"))?;
        maker.patch.replace(old, new);
        Ok(maker.patch)
    }

    /// A number that is a tensor of one element may add dimensions to the other operand; with known ranks, the patch
    /// is rejected if they differ.
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

/// Creates the nodes of a formula.
struct Maker<'a> {
    found: &'a Match<'a>,
    /// The type of numbers.
    dtype: Option<DType>,
    patch: Patch,
    /// The constants created so far, so that a repeated one is created once.
    constants: Vec<(Tensor, ValueId)>,
    nodes: Vec<(&'static str, Vec<Option<ValueId>>, ValueId)>,
}

impl<'a> Maker<'a> {
    fn new(found: &'a Match<'a>, dtype: Option<DType>) -> Self {
        let (patch, constants, nodes) = (Patch::new(found.graph), Vec::new(), Vec::new());
        Self { found, dtype, patch, constants, nodes }
    }

    /// The value of a formula, `None` for an absent one; created if necessary.
    fn make(&mut self, pat: &Pat) -> Result<Option<ValueId>, Refusal> {
        Ok(Some(match pat {
            Pat::Var(name) | Pat::Constant(name) => self.found.value(name),
            Pat::Absent => return Ok(None),
            Pat::Number(number) => {
                let unknown = Refusal("the type of a constant is not known");
                let dtype = self.dtype.ok_or(unknown)?;
                self.constant(
                    with_dtype!(dtype, number, T => Tensor::scalar(T::from_f64(*number)),
                    else => return Err(unknown)),
                )?
            }
            Pat::Made(tensor) => self.constant(tensor(self.found)?)?,
            Pat::Named(_, pat) => return self.make(pat),
            Pat::Op(op) => self.node(op)?,
            Pat::Any(_) => return Err(Refusal("its replacement is not one formula")),
        }))
    }

    fn constant(&mut self, tensor: Tensor) -> Result<ValueId, Refusal> {
        if let Some((_, value)) = self.constants.iter().find(|(made, _)| *made == tensor) {
            return Ok(*value);
        }
        let value = self.patch.constant("", tensor.clone())?;
        self.constants.push((tensor, value));
        Ok(value)
    }

    fn node(&mut self, op: &OpPat) -> Result<ValueId, Refusal> {
        let inputs = op.inputs.iter().map(|input| self.make(input));
        let mut inputs = inputs.collect::<Result<Vec<_>, Refusal>>()?;
        inputs.truncate(inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        let (since_version, attrs) = match op.origin {
            Origin::Like(label) => {
                let like = self.found.get_node(label);
                like.map_or((13, Attrs::new()), |node| (node.since_version, node.attrs.clone()))
            }
            Origin::New(since_version, attrs) => (since_version, attrs(self.found)),
            Origin::Following(spec) => spec(self.found),
        };
        let is_plain = op.domain.is_empty() && attrs.iter().next().is_none();
        let mut made = self.nodes.iter();
        let same = made.find(|(op_type, made, _)| *op_type == op.op_type && *made == inputs);
        if let Some((.., value)) = same.filter(|_| is_plain) {
            return Ok(*value);
        }
        let value = self.patch.output_of(NewNode {
            name: self.found.root().name.clone(),
            domain: op.domain.to_owned(),
            op_type: op.op_type.to_owned(),
            since_version,
            inputs: inputs.clone(),
            attrs,
            ..NewNode::default()
        })?;
        if is_plain {
            self.nodes.push((op.op_type, inputs, value));
        }
        Ok(value)
    }
}
