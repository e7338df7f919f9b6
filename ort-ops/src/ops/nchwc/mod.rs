//! The operators of com.microsoft.nchwc: blocked layouts.

// One a line, in alphabetical order.
ops! {}
