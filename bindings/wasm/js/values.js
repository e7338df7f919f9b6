// Converts values between a session and its caller.

import { Tensor, bytesOf, tensorOf } from './tensor.js';

/** Copies the tensors of `feeds`, `{ name: Tensor }`, into the inputs of a run. */
export function copyFeeds(feeds, into) {
  if (typeof feeds !== 'object' || feeds === null || feeds instanceof Tensor || Array.isArray(feeds)) {
    throw new TypeError('feeds must be an object with a tensor for each input name');
  }
  for (const [name, tensor] of Object.entries(feeds)) {
    if (typeof tensor?.type !== 'string' || !Array.isArray(tensor.dims)) {
      throw new TypeError(`input \`${name}\` is not a tensor`);
    }
    const { type, data } = tensor;
    const dims = BigUint64Array.from(tensor.dims, BigInt);
    if (type === 'string') into.strings(name, data, dims);
    else into.numbers(name, type, bytesOf(data), dims);
  }
  return into;
}

/** A tensor, an array of values, a `Map`, or null. */
export function valueOf(value) {
  if (value === null) return null;
  if (Array.isArray(value)) return value.map(valueOf);
  if ('keys' in value) {
    const [keys, values] = [tensorOf(value.keys).data, tensorOf(value.values).data];
    return new Map(Array.from(keys, (key, i) => [key, values[i]]));
  }
  return tensorOf(value);
}
