// The same as run.c through onnxruntime-node, from bytes. The first argument is the library that must be loaded.

const { readFileSync, writeFileSync } = require('fs');
const ort = require('onnxruntime-node');

const TYPES = {
  1: ['float32', Float32Array],
  6: ['int32', Int32Array],
  7: ['int64', BigInt64Array],
};

async function main([library, model, folder, ...inputs]) {
  if (!process.report.getReport().sharedObjects.includes(library)) {
    throw new Error(`${library} was not loaded`);
  }
  const options = { intraOpNumThreads: 1, graphOptimizationLevel: 'all', logSeverityLevel: 2 };
  const session = await ort.InferenceSession.create(readFileSync(model), options);
  const feeds = {};
  for (const input of inputs) {
    const [name, number, shape, path] = input.split(':');
    const dims = shape.split(',').filter((dim) => dim !== 's').map(Number);
    const bytes = Uint8Array.from(readFileSync(path));
    const [type, array] = TYPES[number];
    feeds[name] = new ort.Tensor(type, new array(bytes.buffer), dims);
  }
  const results = await session.run(feeds);
  session.outputNames.forEach((name, i) => {
    const { buffer, byteOffset, byteLength } = results[name].data;
    writeFileSync(`${folder}/${i}.bin`, new Uint8Array(buffer, byteOffset, byteLength));
  });
  await session.release();
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
