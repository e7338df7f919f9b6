//! Transposes, moved to where they cancel.

// One a line.
passes! {}
