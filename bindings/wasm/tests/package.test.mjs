// Tests of the package in Node.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { InferenceSession, Tensor } from '../package/index.js';
import { MODELS, worst } from './models.mjs';
import { NUMBERS, model } from './tensor_proto.mjs';

const FOLDER = new URL(process.env.MODELS);
const read = (path) => readFile(new URL(path, FOLDER)).catch(() => undefined);

for (const path of MODELS) {
  test(`${path} computes the same as natively`, async () => {
    assert.ok((await worst(read, path)) <= 1);
  });
}

test('every element type passes through unchanged', async () => {
  for (const type of Object.keys(NUMBERS)) {
    const session = await InferenceSession.create(model('Identity', type));
    const data = type === 'string' ? ['a', '', 'öß'] : new Tensor(type, [], [0]).data.constructor.from([1, 0, 1, 1].map((n) => (/int64/.test(type) ? BigInt(n) : n)));
    const x = new Tensor(type, data);
    const { y } = await session.run({ x });
    assert.equal(y.type, type);
    assert.deepEqual([y.dims, y.data], [x.dims, x.data], type);
  }
});

test('a session describes its model', async () => {
  const session = await InferenceSession.create(model('Identity', 'float32'));
  const value = { isTensor: true, type: 'float32', shape: ['n'], hasDefault: false };
  assert.deepEqual(session.inputNames, ['x']);
  assert.deepEqual(session.inputMetadata, [{ name: 'x', ...value }]);
  assert.deepEqual(session.outputMetadata, [{ name: 'y', ...value }]);
  assert.equal(session.metadata.producerName, 'tests');
  assert.equal(session.metadata.custom.get('k'), 'v');
});

test('a model comes from a URL, a part of a buffer, or a Blob', async () => {
  const url = new URL('ppocr_cls/model.ort', FOLDER);
  const bytes = await readFile(url);
  const padded = new Uint8Array(bytes.length + 7);
  padded.set(bytes, 3);
  const names = async (...source) => (await InferenceSession.create(...source)).inputNames;
  for (const source of [[url], [url.href], [bytes], [new Blob([bytes])], [padded.buffer, 3, bytes.length]]) {
    assert.deepEqual(await names(...source), ['x']);
  }
});

test('options are those of onnxruntime-web, and an unknown one is an error', async () => {
  const create = (options) => InferenceSession.create(model('Identity', 'float32'), options);
  for (const graphOptimizationLevel of ['disabled', 'basic', 'extended', 'layout', 'all']) await create({ graphOptimizationLevel });
  await create({ executionProviders: ['wasm'], enableMemPattern: false, extra: { session: { set_denormal_as_zero: '1' } } });
  const fixed = await create({ freeDimensionOverrides: { n: 3 } });
  assert.deepEqual(fixed.inputMetadata[0].shape, [3]);
  await assert.rejects(create({ executionProviders: ['webgpu'] }), /no execution provider `webgpu`/);
  await assert.rejects(create({ colour: 'red' }), /no option `colour`/);
  await assert.rejects(create({ graphOptimizationLevel: 'most' }), /most/);
  await assert.rejects(create({ extra: { session: { no_such_key: '1' } } }), /no_such_key/);
});

test("errors are Errors with the runtime's messages", async () => {
  await assert.rejects(InferenceSession.create(new TextEncoder().encode('not a model at all')), Error);
  const session = await InferenceSession.create(model('Abs', 'float32'));
  await assert.rejects(session.run({}), /`x`/);
  await assert.rejects(session.run({ z: new Tensor(Float32Array.of(1)) }), /`z`/);
  await assert.rejects(session.run({ x: new Tensor(Float64Array.of(1)) }), /float/);
  await assert.rejects(session.run({ x: new Tensor('float32', [], [2 ** 40, 0]) }), /1099511627776/);
  await assert.rejects(session.run({ x: 1 }), /`x` is not a tensor/);
  await assert.rejects(session.run({ x: new Tensor(Float32Array.of(1)) }, ['w']), /`w`/);
  await assert.rejects(session.run({ x: new Tensor(Float32Array.of(1)) }, { terminate: true }), /terminated/);
  await assert.rejects(InferenceSession.create(model('NoSuchOperator', 'float32')), /NoSuchOperator/);
});

test('outputs are requested by name, and written to tensors', async () => {
  const session = await InferenceSession.create(model('Neg', 'int64'));
  const x = new Tensor('int64', [1, -2]);
  const target = new Tensor('int64', [0, 0]);
  const { y } = await session.run({ x }, { y: target });
  assert.equal(y, target);
  assert.deepEqual([...y.data], [-1n, 2n]);
  await assert.rejects(session.run({ x }, { y: new Tensor('int64', [0]) }), RangeError);
  const [step] = await session.profile({ x });
  assert.equal(step.operator, 'Neg');
});

test('tensors check their arguments', () => {
  assert.throws(() => new Tensor('float32', Float32Array.of(1, 2), [3]), RangeError);
  assert.throws(() => new Tensor('float32', Float64Array.of(1)), TypeError);
  assert.throws(() => new Tensor('colour', []), TypeError);
  assert.throws(() => new Tensor('string', [1]), TypeError);
  assert.throws(() => new Tensor(Float32Array.of(1), [-1]), RangeError);
  assert.deepEqual(new Tensor(Float32Array.of(1, 2)).reshape([2, 1]).dims, [2, 1]);
  assert.equal(new Tensor([true, false]).type, 'bool');
  const disposed = new Tensor(Float32Array.of(1));
  disposed.dispose();
  assert.throws(() => disposed.data, /disposed/);
});

test('a released session no longer runs', async () => {
  const session = await InferenceSession.create(model('Abs', 'float32'));
  await session.release();
  await assert.rejects(session.run({ x: new Tensor(Float32Array.of(1)) }), /released/);
});

test('a worker has its own module', async () => {
  const source = `
    import { parentPort } from 'node:worker_threads';
    const { InferenceSession, Tensor } = await import(${JSON.stringify(new URL('../package/index.js', import.meta.url).href)});
    const session = await InferenceSession.create(Uint8Array.from(${JSON.stringify([...model('Abs', 'float32')])}));
    const { y } = await session.run({ x: new Tensor(Float32Array.of(-3)) });
    parentPort.postMessage(y.data[0]);`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`));
  const answer = await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
  assert.equal(answer, 3);
});

test('no code is evaluated from strings', async () => {
  for (const file of ['index.js', 'module.js', 'session.js', 'tensor.js', 'values.js', 'ort_wasm.js']) {
    const text = await readFile(new URL(`../package/${file}`, import.meta.url), 'utf8');
    assert.doesNotMatch(text, /\beval\s*\(|\bnew Function\b|\bFunction\(/, file);
  }
});
