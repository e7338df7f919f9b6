//! Every row of the table, and nodes that it does not replace.

mod convolutions;
mod elementwise;
mod matrices;
mod moves;
