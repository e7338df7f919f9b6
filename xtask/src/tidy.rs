//! The conventions a program can check. A rule is a file below `tidy/` and a line in [`RULES`].

mod architecture;
mod glossary;
mod links;
mod manifests;
mod memory;
mod names;
mod promises;
mod sizes;
mod text;
mod unsafety;

pub(crate) use self::unsafety::allowances;
use crate::problem::{Failure, Problem};
use crate::repository::Repository;

type Rule = fn(&Repository) -> Vec<Problem>;

const RULES: &[Rule] = &[
    sizes::check,
    names::check,
    text::check,
    unsafety::check,
    manifests::check,
    architecture::check,
    memory::check,
    links::check,
    glossary::check,
    promises::check,
];

/// The result of tidy.
pub(crate) struct Report {
    pub(crate) problems: Vec<Problem>,
    /// The counts behind the rules, for choosing budgets.
    pub(crate) summary: String,
}

/// Applies every rule.
pub(crate) fn check(repository: &Repository) -> Result<Report, Failure> {
    let mut problems: Vec<_> = RULES.iter().flat_map(|rule| rule(repository)).collect();
    problems.sort();
    let summary = format!("{}\n{}", sizes::summary(repository), unsafety::summary(repository));
    Ok(Report { problems, summary })
}
