// The models of the repository, compared with the expected outputs that test the native runtime.

import { InferenceSession } from '../package/index.js';
import { readTensor } from './tensor_proto.mjs';

/** Every model, by its path. */
export const MODELS = ['magika/model.ort', 'ppocr_cls/model.ort', 'ppocr_cls/model.onnx', 'silero_vad/model.ort'];

async function tensors(read, folder, kind) {
  const found = [];
  for (let bytes; (bytes = await read(`${folder}/test_data_set_0/${kind}_${found.length}.pb`)); ) found.push(readTensor(bytes));
  return found;
}

/** The largest error of a model's outputs, in units of its tolerance: above 1 is a failure. */
export async function worst(read, path) {
  const folder = path.split('/')[0];
  const [rtol, atol] = new TextDecoder().decode(await read(`${folder}/tol.txt`)).trim().split(/\s+/).map(Number);
  const [inputs, outputs] = [await tensors(read, folder, 'input'), await tensors(read, folder, 'output')];
  const session = await InferenceSession.create(await read(path));
  const named = inputs.map(([name, tensor], i) => [session.inputNames.includes(name) ? name : session.inputNames[i], tensor]);
  const results = await session.run(Object.fromEntries(named));
  let [most, count] = [0, 0];
  session.outputNames.forEach((name, i) => {
    const [expected, found] = [outputs[i][1], results[name]];
    if (String(found.dims) !== String(expected.dims) || found.type !== expected.type) throw new Error(`${path}: \`${name}\` is ${found.type}[${found.dims}]`);
    found.data.forEach((value, at) => {
      const [a, b] = [Number(value), Number(expected.data[at])];
      const error = Math.abs(a - b) / (atol + rtol * Math.abs(b));
      most = Math.max(most, Number.isNaN(error) ? Infinity : error);
      count += 1;
    });
  });
  if (count === 0) throw new Error(`${path}: no output`);
  await session.release();
  return most;
}
