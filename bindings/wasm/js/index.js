// ort-wasm: onnxruntime-web's API on a runtime written in Rust.

export { env } from './module.js';
export { InferenceSession } from './session.js';
export { Tensor } from './tensor.js';
