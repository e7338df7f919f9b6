//! Products and convolutions with what stands before and after them.

// One a line.
passes! {}
