// Reads and writes the messages of ONNX that the tests need. Source: onnx.proto, and Protocol Buffers' encoding.

import { Tensor } from '../package/index.js';

/** ONNX's number of each element type. */
export const NUMBERS = {
  float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, string: 8, bool: 9, float16: 10, float64: 11, uint32: 12,
  uint64: 13, complex64: 14, complex128: 15, bfloat16: 16, float8e4m3fn: 17, float8e4m3fnuz: 18, float8e5m2: 19,
  float8e5m2fnuz: 20, uint4: 21, int4: 22,
};
const NAMES = Object.fromEntries(Object.entries(NUMBERS).map(([name, number]) => [number, name]));

function varint(bytes, at) {
  let [value, shift] = [0n, 0n];
  for (;;) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) return [BigInt.asIntN(64, value), at];
  }
}

/** The fields of a message: `[number, bigint or bytes]`. */
function* fields(bytes) {
  for (let at = 0, key, value; at < bytes.length; ) {
    [key, at] = varint(bytes, at);
    const kind = Number(key & 7n);
    if (kind === 0) {
      [value, at] = varint(bytes, at);
    } else {
      let length = BigInt({ 1: 8, 5: 4 }[kind] ?? 0);
      if (kind === 2) [length, at] = varint(bytes, at);
      value = bytes.subarray(at, (at += Number(length)));
    }
    yield [Number(key >> 3n), value];
  }
}

function* varints(bytes) {
  for (let at = 0, value; at < bytes.length; ) {
    [value, at] = varint(bytes, at);
    yield value;
  }
}

/** The name and the tensor of a TensorProto with raw data or strings. */
export function readTensor(bytes) {
  const [dims, texts] = [[], []];
  let [type, raw, name] = ['', new Uint8Array(), ''];
  for (const [number, value] of fields(bytes)) {
    if (number === 1) dims.push(...(typeof value === 'bigint' ? [value] : varints(value)));
    else if (number === 2) type = NAMES[Number(value)];
    else if (number === 6) texts.push(new TextDecoder().decode(value));
    else if (number === 8) name = new TextDecoder().decode(value);
    else if (number === 9) raw = new Uint8Array(value);
    else throw new Error(`field ${number} of a tensor`);
  }
  const empty = new Tensor(type, [], [0]).data;
  const data = type === 'string' ? texts : new empty.constructor(raw.buffer);
  return [name, new Tensor(type, data, dims.map(Number))];
}

function number(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}

/** A message of `[number, value]`: a number, a string, or a message. */
function message(...of) {
  return of.flatMap(([at, value]) => {
    if (typeof value === 'number') return [...number(at << 3), ...number(value)];
    const bytes = typeof value === 'string' ? [...new TextEncoder().encode(value)] : value;
    return [...number((at << 3) | 2), ...number(bytes.length), ...bytes];
  });
}

/** A model with one node `op`, from `x` to `y`, both vectors of the free dimension `n`. */
export function model(op, type, domain = '') {
  const shape = message([1, message([2, 'n'])]);
  const value = (name) => message([1, name], [2, message([1, message([1, NUMBERS[type]], [2, shape])])]);
  const node = message([1, 'x'], [2, 'y'], [4, op], [7, domain]);
  const graph = message([1, node], [2, 'graph'], [11, value('x')], [12, value('y')]);
  const opset = message([2, 21]);
  return Uint8Array.from(message([1, 10], [2, 'tests'], [7, graph], [8, opset], [14, message([1, 'k'], [2, 'v'])]));
}
