// The WebAssembly module: compiled once, when the first session needs it.

import init, * as native from './ort_wasm.js';

/** Settings of the module, as in onnxruntime-web; they take effect until the first session is created. */
export const env = {
  wasm: {
    /** Where `ort_wasm_bg.wasm` is: a folder, or `{ wasm: URL }`. Next to this file if undefined. */
    wasmPaths: undefined,
    /** The bytes of `ort_wasm_bg.wasm`, if they are loaded already. */
    wasmBinary: undefined,
    /** Always one. */
    numThreads: 1,
  },
};

const FILE = 'ort_wasm_bg.wasm';
let loading;

function urlOf(paths) {
  if (paths === undefined) return new URL(FILE, import.meta.url);
  if (typeof paths === 'string') return new URL(FILE, new URL(paths, import.meta.url));
  return new URL(paths.wasm, import.meta.url);
}

/** The bytes at a URL; Node's `fetch` does not read files. */
export async function fetched(url) {
  const where = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
  if (where.protocol === 'file:') {
    const { readFile } = await import(/* webpackIgnore: true */ 'node:fs/promises');
    return readFile(where);
  }
  const response = await fetch(where);
  if (!response.ok) throw new Error(`${where}: ${response.status} ${response.statusText}`);
  return response;
}

async function load() {
  const source = env.wasm.wasmBinary ?? (await fetched(urlOf(env.wasm.wasmPaths)));
  await init({ module_or_path: source });
  return native;
}

/** The exports of the module. */
export function module() {
  loading ??= load().catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}
