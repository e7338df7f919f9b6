//! The operators of ai.onnx.ml: classical machine learning.

// One a line, in alphabetical order.
ops! {}
