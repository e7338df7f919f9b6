//! TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier for features of every type.
//!
//! ```text
//! for each block of samples:                        threads share the samples
//!     keys of the features that are looked at
//!     for each [`TREES`] trees:
//!         the leaves of all samples                  of few samples, threads share the trees
//!         their votes, tree by tree
//! ```
//!
//! So votes are summed in the order of the trees, as `eval` does, on any number of threads.

mod layout;
mod model;
mod splits;
#[cfg(test)]
mod tests;
mod votes;

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{OpError, Operator};
use ort_kernels::trees::{Key, LANES};
use ort_ops::features::n_samples_and_features;
use ort_ops::forest::Tally;
use ort_tensor::{DType, Number, bf16, f16, filled, with_dtype};

use self::layout::{Layout, TREES};
use self::model::{Model, finish};
use self::votes::{Score, Scores, Votes};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, per_part};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// What a step of a walk costs, in multiply-adds.
const STEP: usize = 48;
/// The bytes of a block: half a second-level cache of 512 KiB; the other half is for the nodes of a tree.
const BLOCK: usize = 256 << 10;
/// The most samples of a block.
const MOST: usize = 256;
/// The most parts a thread gets.
const PARTS: usize = 4;
/// Bytes to a cache line.
const LINE: usize = 64;

/// A type of features: as what they are compared, and in what votes for them are counted.
trait Feature: Number {
    type Key: Key;
    type Score: Score;
}

macro_rules! features {
    ($($feature:ty: $key:ty, $score:ty;)+) => {$(
        impl Feature for $feature {
            type Key = $key;
            type Score = $score;
        }
    )+};
}
features! {
    f32: i32, f32;
    f16: i32, f32;
    bf16: i32, f32;
    f64: i64, f64;
    i32: i64, f32;
    i64: i64, f32;
}

#[derive(Debug)]
struct ForestKernel<F: Feature> {
    cpu: Cpu,
    op: Arc<dyn Operator>,
    layout: Layout<F::Key>,
    votes: Votes<F::Score>,
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy)]
struct State {
    n: usize,
    n_features: usize,
    /// The samples of a block.
    block: usize,
    /// The bytes of scratch with which threads can share the trees.
    shared_bytes: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let op = &compiler.graph.node(id).op;
    let (Some(model), Some(dtype)) = (Model::of(&**op), compiler.fact(0).and_then(|x| x.dtype()))
    else {
        return Ok(None);
    };
    with_dtype!(dtype, [f32, f64, f16, bf16, i32, i64], F => {
        let Some(layout) = Layout::new(model.forest()) else { return Ok(None) };
        let votes = Votes::new(model.forest(), layout.leaves());
        let (cpu, op) = (compiler.cpu, op.clone());
        Ok(Some(Box::new(ForestKernel::<F> { cpu, op, layout, votes })))
    }, else => Ok(None))
}

/// Memory for a block of samples.
struct Workspace<'s, F: Feature> {
    keys: &'s mut [F::Key],
    places: &'s mut [u32],
    scores: Scores<'s, F::Score>,
}

/// The lengths of its parts.
struct Sizes {
    keys: usize,
    places: usize,
    scores: usize,
}

/// Samples, and where their results go.
struct Part<'a, F, U> {
    x: &'a [F],
    y: &'a mut [U],
    classes: &'a mut [usize],
    tally: Tally,
    n: usize,
}

impl Sizes {
    /// The bytes of a workspace; `None` if they are too many.
    fn bytes<F: Feature>(&self) -> Option<usize> {
        let line = |n: usize, size: usize| n.checked_mul(size)?.checked_next_multiple_of(LINE);
        line(self.keys, size_of::<F::Key>())?
            .checked_add(line(self.places, size_of::<u32>())?)?
            .checked_add(line(self.scores, size_of::<F::Score>())?)?
            .checked_add(line(self.scores, 1)?)
    }
}

/// The first `n` of what is left.
fn take<'s, T: Pod>(rest: &mut &'s mut [u8], n: usize) -> &'s mut [T] {
    let (bytes, behind) =
        std::mem::take(rest).split_at_mut((n * size_of::<T>()).next_multiple_of(LINE));
    *rest = behind;
    bytemuck::cast_slice_mut(&mut bytes[..n * size_of::<T>()])
}

/// The first `n` of what is left, or all.
fn up_to<'s, T>(rest: &mut &'s mut [T], n: usize) -> &'s mut [T] {
    let n = n.min(rest.len());
    let (first, behind) = std::mem::take(rest).split_at_mut(n);
    *rest = behind;
    first
}

impl<F: Feature> ForestKernel<F> {
    fn model(&self) -> Result<Model<'_>, KernelError> {
        Model::of(&*self.op).ok_or(KernelError::ForeignState)
    }

    fn sizes(&self, n: usize, n_trees: usize, n_targets: usize) -> Option<Sizes> {
        Some(Sizes {
            keys: n.checked_mul(self.layout.n_keys())?,
            places: n.checked_mul(n_trees)?,
            scores: n.checked_mul(n_targets)?,
        })
    }

    fn state(&self, n: usize, n_features: usize) -> Option<(State, usize)> {
        let n_targets = self.model().ok()?.forest().n_targets();
        let bytes = |n, n_trees| self.sizes(n, n_trees, n_targets)?.bytes::<F>();
        let block = BLOCK / bytes(1, TREES)? / LANES * LANES;
        let block = block.clamp(LANES, MOST).min(n);
        let of_block = bytes(block, TREES)?;
        // Whoever has fewer samples shares the trees.
        let few = n.min(LANES * PARTS * self.cpu.max_threads);
        let shared_bytes = if few == n { bytes(n, self.layout.trees.len())? } else { 0 };
        of_block.checked_mul(2)?.checked_mul(self.cpu.max_threads)?;
        let own = self.cpu.scratch_bytes_for(of_block / size_of::<f32>(), self.cost(n));
        Some((State { n, n_features, block, shared_bytes }, own.max(shared_bytes)))
    }

    /// What `n` samples cost, in multiply-adds.
    fn cost(&self, n: usize) -> usize {
        n.saturating_mul(self.layout.n_steps()).saturating_mul(STEP)
    }

    /// A workspace in scratch that is long enough for it, with no votes.
    fn workspace<'s>(&self, mut scratch: &'s mut [u8], sizes: &Sizes) -> Workspace<'s, F> {
        let keys = take(&mut scratch, sizes.keys);
        let places = take(&mut scratch, sizes.places);
        let sums: &mut [F::Score] = take(&mut scratch, sizes.scores);
        let is_voted: &mut [u8] = take(&mut scratch, sizes.scores);
        sums.fill(F::Score::default());
        is_voted.fill(0);
        Workspace { keys, places, scores: Scores { sums, is_voted } }
    }

    /// Computes a part, block by block.
    fn part<U: Number>(
        &self,
        model: Model<'_>,
        state: &State,
        mut part: Part<'_, F, U>,
        scratch: &mut [u8],
    ) {
        let n_targets = model.forest().n_targets();
        let (mut y, mut classes) = (part.y, part.classes);
        for first in (0..part.n).step_by(state.block) {
            let n = state.block.min(part.n - first);
            let Some(sizes) = self.sizes(n, TREES, n_targets) else { return };
            let mut workspace = self.workspace(scratch, &sizes);
            let x = &part.x[first * state.n_features..][..n * state.n_features];
            self.layout.write_keys(x, state.n_features, workspace.keys);
            for trees in self.layout.trees.chunks(TREES) {
                let places = &mut workspace.places[..trees.len() * n];
                self.layout.walk(trees, (workspace.keys, n), places);
                for places in places.chunks_exact(n) {
                    self.votes.count(model.aggregate(), places, &mut workspace.scores);
                }
            }
            let results = (up_to(&mut y, n * n_targets), up_to(&mut classes, n));
            finish(model, &workspace.scores, &mut part.tally, results);
        }
    }

    /// Computes a part whose trees threads share.
    fn shared<U: Number>(
        &self,
        model: Model<'_>,
        state: &State,
        mut part: Part<'_, F, U>,
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let trees = &self.layout.trees;
        let Some(sizes) = self.sizes(part.n, trees.len(), model.forest().n_targets()) else {
            return;
        };
        let Workspace { keys, places, mut scores } = self.workspace(scratch, &sizes);
        self.layout.write_keys(part.x, state.n_features, keys);
        let keys = &*keys;
        let n_parts = n_parts(threads, self.cost(part.n));
        let per_part = per_part(threads, trees.len(), n_parts);
        let parts = trees.chunks(per_part).zip(places.chunks_mut(per_part * part.n));
        Team::new(threads, parts.len()).run(parts, |(trees, places), _| {
            self.layout.walk(trees, (keys, part.n), places);
        });
        for places in places.chunks_exact(part.n) {
            self.votes.count(model.aggregate(), places, &mut scores);
        }
        finish(model, &scores, &mut part.tally, (part.y, part.classes));
    }

    /// Computes all samples into `y` and `classes`, of which either may be empty if unused.
    fn samples<U: Number>(
        &self,
        state: &State,
        x: &[F],
        (mut y, mut classes): (&mut [U], &mut [usize]),
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) -> Result<(), KernelError> {
        let model = self.model()?;
        let (n_targets, n_groups) = (model.forest().n_targets(), state.n.div_ceil(LANES));
        let n_parts = n_parts(threads, self.cost(state.n));
        let tally = Tally::new(model.forest())?;
        if n_parts > n_groups && (1..=scratch.len()).contains(&state.shared_bytes) {
            let part = Part { x, y, classes, tally, n: state.n };
            self.shared(model, state, part, (threads, scratch));
            return Ok(());
        }
        let per_part = per_part(threads, n_groups, n_parts) * LANES;
        // bounded: by the parts of the work
        let mut parts = Vec::with_capacity(state.n.div_ceil(per_part));
        for first in (0..state.n).step_by(per_part) {
            let n = per_part.min(state.n - first);
            let x = &x[first * state.n_features..][..n * state.n_features];
            let (y, classes) = (up_to(&mut y, n * n_targets), up_to(&mut classes, n));
            parts.push(Part { x, y, classes, tally: Tally::new(model.forest())?, n });
        }
        let sizes = self.sizes(state.block, TREES, n_targets).and_then(|sizes| sizes.bytes::<F>());
        let len = sizes.ok_or(OpError::TooLarge)? / size_of::<f32>();
        let team = Team::new(threads, parts.len()).with_scratch(scratch, len);
        team.run(parts.into_iter(), |part, scratch| {
            self.part(model, state, part, bytemuck::cast_slice_mut(scratch));
        });
        Ok(())
    }

    fn run_into<U: Number>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let model = self.model()?;
        let x = io.inputs.tensor(0)?.as_slice::<F>()?;
        let (at, dtype) = model.scores(F::DTYPE);
        let has_classes = matches!(model, Model::Classes(_));
        let mut classes = filled(0, if has_classes { state.n } else { 0 })?;
        let wanted = io.outputs.get_mut(at).filter(|output| output.is_wanted());
        let y: &mut [U] = match wanted {
            Some(output) => {
                output.tensor(dtype, &[state.n, model.forest().n_targets()])?.into_slice()?
            }
            None => &mut [],
        };
        self.samples(state, x, (y, &mut classes), (io.threads, io.scratch))?;
        if let Model::Classes(op) = model {
            op.labels.write(io.outputs, &classes)?;
        }
        Ok(())
    }
}

impl<F: Feature> Kernel for ForestKernel<F> {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let [n, n_features] = n_samples_and_features(x)?;
        self.model()?.forest().expect_features(n_features)?;
        let (state, bytes) = self.state(n, n_features).ok_or(OpError::TooLarge)?;
        Ok(Prepared::new(state).with_scratch(bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        match self.model()?.scores(F::DTYPE).1 {
            DType::F32 => self.run_into::<f32>(state, io),
            _ => self.run_into::<F>(state, io),
        }
    }

    fn variant(&self) -> &'static str {
        "trees"
    }
}
