//! Every row of the table, and what it leaves alone.

mod codes;
mod convolutions;
mod elementwise;
mod matrices;
