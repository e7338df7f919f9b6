"""onnxruntime's inner modules, under the names that programs import."""
