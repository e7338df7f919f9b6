"""onnxruntime's inner modules, by the names that programs import them by."""
