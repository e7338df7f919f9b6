// Times a model in Node: `node time_model.mjs PACKAGE FOLDER`. Prints { start, run } in milliseconds: from the import of the
// package to the first result, and the fastest of many runs.

import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';

import { readTensor } from './tensor_proto.mjs';

/** The minimum total time of the runs, and the minimum number of runs. */
const [MILLISECONDS, RUNS] = [3000, 10];

const [name, folder] = process.argv.slice(2);
const read = (path) => readFile(`${folder}/${path}`);
const [bytes, inputs] = [await read('model.ort').catch(() => read('model.onnx')), []];
for (let raw; (raw = await read(`test_data_set_0/input_${inputs.length}.pb`).catch(() => undefined)); ) inputs.push(readTensor(raw));

const begin = performance.now();
const { InferenceSession, Tensor, env } = await import(pathToFileURL(name));
env.wasm.numThreads = 1;
const session = await InferenceSession.create(new Uint8Array(bytes), { executionProviders: ['wasm'] });
const named = inputs.map(([input, { type, data, dims }], i) => {
  const place = session.inputNames.includes(input) ? input : session.inputNames[i];
  return [place, new Tensor(type, data, [...dims])];
});
const feeds = Object.fromEntries(named);
await session.run(feeds);
const start = performance.now() - begin;

const times = [];
for (const first = performance.now(); times.length < RUNS || performance.now() - first < MILLISECONDS; ) {
  const before = performance.now();
  await session.run(feeds);
  times.push(performance.now() - before);
}
console.log(JSON.stringify({ start, run: Math.min(...times) }));
process.exit();
