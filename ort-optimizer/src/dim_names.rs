//! Names for unnamed dimensions, so that dimensions derived from each other are known to be equal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ort_graph::{CycleError, Dim, Dims, Fact, Graph, Node, NodeId, Type};
use ort_ops::infer::{broadcast_dims, normalize_axis};
use ort_ops::ops::concat::Concat;
use ort_ops::ops::reshape::Reshape;

use crate::sizes::{Size, sizes};

/// The names given to dimensions.
#[derive(Debug, Default)]
pub(crate) struct DimNames(HashSet<Arc<str>>);

impl DimNames {
    /// Gives each unknown dimension a unique name, and the same name to dimensions derived from it. A name only
    /// states that a number is the same wherever it occurs, which holds for the dimension of one value in one run.
    /// Names that a file gives to derived dimensions are replaced.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub(crate) fn give(graph: &mut Graph) -> Result<Self, CycleError> {
        let taken: HashSet<Arc<str>> =
            graph.value_ids().flat_map(|id| symbols(graph.fact(id))).collect();
        let mut sums = Sums { taken: &taken, names: HashMap::new() };
        let mut given = HashSet::new();
        for node in graph.topological_order()? {
            graph.refine(node);
            take_from_sizes(graph, node, &mut sums);
            let outputs = graph.node(node).outputs.clone();
            if outputs.iter().flatten().any(|&output| symbols(graph.fact(output)).next().is_some())
            {
                take_from_operands(graph, node, |_, _| true);
            }
            for output in outputs.into_iter().flatten() {
                let info = graph.value_mut(output);
                for (axis, dim) in dims(&mut info.fact).enumerate() {
                    if *dim != Dim::Unknown {
                        continue;
                    }
                    let name: Arc<str> = format!("{}.{axis}", info.name).into();
                    if !taken.contains(&name) {
                        *dim = Dim::Symbol(name.clone());
                        given.insert(name);
                    }
                }
            }
        }
        given.extend(sums.names.into_values());
        Ok(Self(given))
    }

    /// Replaces given names by names of the file that rewrites have found, and returns whether there were any.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub(crate) fn improve(&self, graph: &mut Graph) -> Result<bool, CycleError> {
        let mut is_improved = false;
        if self.0.is_empty() {
            return Ok(false);
        }
        for node in graph.topological_order()? {
            let is_given = |name: Arc<str>| self.0.contains(&name);
            let mut outputs = graph.node(node).outputs.iter().flatten();
            if outputs.any(|&output| symbols(graph.fact(output)).any(is_given)) {
                is_improved |= take_from_operands(graph, node, |from, to| {
                    self.0.contains(from) && !self.0.contains(to)
                });
            }
        }
        Ok(is_improved)
    }

    /// Removes the names from the graph's outputs, which callers see as the file declares them.
    pub(crate) fn take_from_outputs(&self, graph: &mut Graph) {
        for output in graph.outputs().to_vec() {
            for dim in dims(&mut graph.value_mut(output).fact) {
                if matches!(dim, Dim::Symbol(name) if self.0.contains(name)) {
                    *dim = Dim::Unknown;
                }
            }
        }
    }
}

/// Of two names for one dimension, the operands' name is more specific. Replaces a name by another if `takes`; returns
/// whether any was.
fn take_from_operands(
    graph: &mut Graph,
    node: NodeId,
    takes: impl Fn(&Arc<str>, &Arc<str>) -> bool,
) -> bool {
    let mut is_any = false;
    let inferred = graph.infer(node).unwrap_or_default();
    let outputs = graph.node(node).outputs.clone();
    for (output, mut inferred) in outputs.into_iter().zip(inferred) {
        let Some(output) = output else { continue };
        let fact = &mut graph.value_mut(output).fact;
        for (dim, inferred) in dims(fact).zip(dims(&mut inferred)) {
            if let (Dim::Symbol(from), Dim::Symbol(to)) = (&*dim, &*inferred)
                && from != to
                && takes(from, to)
            {
                dim.clone_from(inferred);
                is_any = true;
            }
        }
    }
    is_any
}

/// One name for each sum of dimensions.
struct Sums<'a> {
    taken: &'a HashSet<Arc<str>>,
    names: HashMap<Size, Arc<str>>,
}

impl Sums<'_> {
    fn dim(&mut self, size: &Size) -> Dim {
        match size {
            Size::Known(n) => usize::try_from(*n).map_or(Dim::Unknown, Dim::Known),
            Size::Symbol(name) => Dim::Symbol(name.clone()),
            Size::Sum(terms) => match self.names.get(size) {
                Some(name) => Dim::Symbol(name.clone()),
                None => self.name(size, terms).unwrap_or(Dim::Unknown),
            },
            Size::Axis(..) | Size::Unknown => Dim::Unknown,
        }
    }

    /// A new name, unless the file or another sum has it, or a term has none.
    fn name(&mut self, size: &Size, terms: &[Size]) -> Option<Dim> {
        let term = |term: &Size| match term {
            Size::Known(n) => Some(n.to_string()),
            Size::Symbol(name) => Some(name.to_string()),
            _ => None,
        };
        let terms: Option<Vec<String>> = terms.iter().map(term).collect(); // bounded: by the longest sum
        let name: Arc<str> = format!("({})", terms?.join(" + ")).into();
        let is_taken = self.taken.contains(&name) || self.names.values().any(|it| *it == name);
        (!is_taken).then(|| {
            self.names.insert(size.clone(), name.clone());
            Dim::Symbol(name)
        })
    }
}

/// Dimensions that a node reads as integers: a model traced with dynamic dimensions computes with them. And those that it
/// adds.
fn take_from_sizes(graph: &mut Graph, node: NodeId, sums: &mut Sums<'_>) {
    let made = made_of_sizes(graph, graph.node(node), sums);
    let (Some(made), Some(&Some(output))) = (made, graph.node(node).outputs.first()) else {
        return;
    };
    let fact = &mut graph.value_mut(output).fact;
    if fact.rank() != Some(made.len()) {
        return;
    }
    for (dim, made) in dims(fact).zip(made) {
        match (&*dim, &made) {
            (Dim::Unknown, _) | (Dim::Symbol(_), Dim::Symbol(_)) => *dim = made,
            _ => {}
        }
    }
}

/// The dimensions of what a node makes of a shape, or of parts.
fn made_of_sizes(graph: &Graph, node: &Node, sums: &mut Sums<'_>) -> Option<Dims> {
    let input = |index: usize| node.inputs.get(index).copied().flatten();
    let mut given = |index| {
        Some(sizes(graph, input(index)?)?.iter().map(|size| sums.dim(size)).collect::<Dims>())
    };
    match (&*node.domain, &*node.op_type) {
        ("", "ConstantOfShape") => given(0),
        ("", "Expand") => broadcast_dims(graph.fact(input(0)?).dims()?, &given(1)?).ok(),
        ("", "Range") => {
            let is = |index, number| Some(graph.fact(input(index)?).ints()? == [number]);
            given(1).filter(|_| is(0, 0) == Some(true) && is(2, 1) == Some(true))
        }
        ("", "Concat") => {
            let output = node.outputs.first().copied().flatten()?;
            let mut dims: Dims = graph.fact(output).dims()?.into();
            let axis = normalize_axis(node.operator::<Concat>()?.axis, dims.len()).ok()?;
            *dims.get_mut(axis)? = sums.dim(&Size::joined(graph, node, axis)?);
            Some(dims)
        }
        ("", "Reshape") => {
            let op = node.operator::<Reshape>().filter(|op| op.shape.is_none())?;
            let (x, mut dims) = (graph.fact(input(0)?).dims()?, given(1)?);
            if !op.allow_zero {
                for (axis, dim) in
                    dims.iter_mut().enumerate().filter(|(_, dim)| **dim == Dim::Known(0))
                {
                    *dim = x.get(axis).cloned()?;
                }
            }
            Some(dims)
        }
        _ => None,
    }
}

fn dims(fact: &mut Fact) -> impl Iterator<Item = &mut Dim> {
    let dims = match &mut fact.ty {
        Type::Tensor(tensor) => tensor.dims.as_mut(),
        _ => None,
    };
    dims.into_iter().flatten()
}

fn symbols(fact: &Fact) -> impl Iterator<Item = Arc<str>> {
    fact.dims().unwrap_or_default().iter().filter_map(|dim| match dim {
        Dim::Symbol(name) => Some(name.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::{Dim, Fact, Graph};
    use ort_tensor::DType;

    use super::DimNames;
    use crate::testing::parse;

    #[test]
    fn dimensions_derived_from_one_have_its_name() {
        let mut graph = parse(
            "graph(x: float[?,3], m: bool[?]) -> (y) {
               w = const float[3,4] fill 1
               a = Compress-11 [axis: 0] (x, m)
               b = Relu-14 (a)
               c = MatMul-13 (b, w)
               d = Compress-11 [axis: 0] (x, m)
               y = Relu-14 (c)
             }",
        );
        let names = DimNames::give(&mut graph).unwrap();
        let dims = |graph: &Graph, name: &str| {
            let id = graph.value_ids().find(|&id| graph.value(id).name == name).unwrap();
            graph.fact(id).ty.to_string()
        };
        assert_eq!(dims(&graph, "a"), "float[a.0,3]");
        assert_eq!(dims(&graph, "c"), "float[a.0,4]");
        assert_eq!(dims(&graph, "d"), "float[d.0,3]");
        assert_eq!(dims(&graph, "y"), "float[a.0,4]");
        names.take_from_outputs(&mut graph);
        assert_eq!(dims(&graph, "y"), "float[?,4]");
        assert_eq!(dims(&graph, "b"), "float[a.0,3]");
    }

    #[test]
    fn dimensions_that_are_computed_with_keep_their_names() {
        let mut graph = parse(
            "graph(x: float[b,4,t,64], k: int64[1]) -> (y, z, w) {
               s = Shape-15 (x)
               zero = const int64[1] [0]
               two = const int64[1] [2]
               three = const int64[1] [3]
               four = const int64[1] [4]
               twelve = const int64[1] [12]
               size = const int64[1] [64]
               none = const int64[5] fill -1
               ones = const int64[5] fill 1
               b = Gather-13 [axis: 0] (s, zero)
               t = Gather-13 [axis: 0] (s, two)
               wide = Concat-13 [axis: 0] (b, four, three, t, size)
               e = Equal-13 (wide, none)
               c = Where-16 (e, ones, wide)
               u = Unsqueeze-13 (x, two)
               r = Expand-13 (u, c)
               whole = Concat-13 [axis: 0] (b, twelve, t, size)
               y = Reshape-14 (r, whole)
               half = Concat-13 [axis: 0] (zero, k, t)
               z = Reshape-14 (x, half)
               w = ConstantOfShape-9 (whole)
             }",
        );
        DimNames::give(&mut graph).unwrap();
        let dims = |name: &str| {
            let id = graph.value_ids().find(|&id| graph.value(id).name == name).unwrap();
            graph.fact(id).ty.to_string()
        };
        assert_eq!(dims("r"), "float[b,4,3,t,64]");
        assert_eq!(dims("y"), "float[b,12,t,64]");
        assert_eq!(dims("z"), "float[b,z.1,t]");
        assert_eq!(dims("w"), "float[b,12,t,64]");
    }

    #[test]
    fn a_name_of_the_file_replaces_a_given_one() {
        let text = "graph(x: float[b,3], m: bool[?]) -> (y) {
               a = Compress-11 [axis: 0] (x, m)
               c = Relu-14 (a)
               y = Neg-13 (c)
             }";
        let mut graph = parse(text);
        let names = DimNames::give(&mut graph).unwrap();
        assert!(!names.improve(&mut graph).unwrap());
        let id = |graph: &Graph, name: &str| {
            graph.value_ids().find(|&id| graph.value(id).name == name).unwrap()
        };
        let (a, x) = (id(&graph, "a"), id(&graph, "x"));
        graph.value_mut(a).fact = graph.fact(x).clone();
        assert!(names.improve(&mut graph).unwrap());
        assert_eq!(graph.fact(id(&graph, "y")).ty.to_string(), "float[b,3]");
        assert!(!names.improve(&mut graph).unwrap());
    }

    #[test]
    fn equal_sums_have_one_name_and_others_have_others() {
        let mut graph = parse(
            "graph(x: float[a,3], y: float[b,3], p: float[d,3], q: float[c,3]) -> (u, v, w, r, s) {
               u = Concat-13 [axis: 0] (x, y)
               v = Concat-13 [axis: -2] (y, x)
               zero = const int64[] 0
               one = const int64[] 1
               xs = Shape-15 [end: 1] (x)
               ys = Shape-15 [end: 1] (y)
               n = Add-14 (xs, ys)
               m = Squeeze-13 (n)
               w = Range-11 (zero, m, one)
               r = Concat-13 [axis: 0] (p, q)
               s = Concat-13 [axis: 0] (x, y, q)
             }",
        );
        let find = |graph: &Graph, name: &str| {
            graph.value_ids().find(|&id| graph.value(id).name == name).unwrap()
        };
        let p = find(&graph, "p");
        graph.value_mut(p).fact =
            Fact::tensor(DType::F32, [Dim::Symbol("a + b".into()), Dim::Known(3)]);
        DimNames::give(&mut graph).unwrap();
        let dim = |name: &str| graph.fact(find(&graph, name)).dims().unwrap()[0].clone();
        assert_eq!(dim("u"), Dim::Symbol("(a + b)".into()));
        assert_eq!([dim("v"), dim("w")], [dim("u"), dim("u")]);
        // Both would be "(a + b + c)".
        assert_ne!(dim("r"), dim("s"));
    }
}
