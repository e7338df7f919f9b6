// Tensors: numbers in a typed array, or strings in an array, and dimensions.

const HALF = globalThis.Float16Array ?? Uint16Array;

/** The array of each element type; types below 8 bits are packed, and complex numbers are pairs. */
const ARRAYS = {
  float32: Float32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  string: Array,
  bool: Uint8Array,
  float16: HALF,
  float64: Float64Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  complex64: Float32Array,
  complex128: Float64Array,
  bfloat16: Uint16Array,
  float8e4m3fn: Uint8Array,
  float8e4m3fnuz: Uint8Array,
  float8e5m2: Uint8Array,
  float8e5m2fnuz: Uint8Array,
  float8e8m0: Uint8Array,
  uint4: Uint8Array,
  int4: Uint8Array,
  float4e2m1: Uint8Array,
  uint2: Uint8Array,
  int2: Uint8Array,
};

/** The number of elements per entry of the array; a fraction if an element takes several entries. */
const PER_ENTRY = { complex64: 1 / 2, complex128: 1 / 2, uint4: 2, int4: 2, float4e2m1: 2, uint2: 4, int2: 4 };

/** The element type of an array; if two types have it, the first. */
function typeOf(data) {
  if (Array.isArray(data)) {
    if (data.every((item) => typeof item === 'string')) return 'string';
    if (data.every((item) => typeof item === 'boolean')) return 'bool';
    throw new TypeError('an array without a type must contain strings or booleans: for numbers, pass the type');
  }
  if (data instanceof Uint8ClampedArray) return 'uint8';
  const found = Object.entries(ARRAYS).find(([, array]) => array !== Array && data instanceof array);
  if (!found) throw new TypeError('the data of a tensor must be a typed array, or an array of strings or booleans');
  return found[0];
}

function arrayOf(type, data) {
  const array = ARRAYS[type];
  if (!array) throw new TypeError(`\`${type}\` is not an element type`);
  if (type === 'string') {
    if (Array.isArray(data) && data.every((item) => typeof item === 'string')) return data;
    throw new TypeError('the data of a tensor of type `string` must be an array of strings');
  }
  if (data instanceof array) return data;
  if (type === 'uint8' && data instanceof Uint8ClampedArray) {
    return new Uint8Array(data.buffer, data.byteOffset, data.length);
  }
  if (type === 'float16' && data instanceof Uint16Array) {
    return new HALF(data.buffer, data.byteOffset, data.length);
  }
  if (Array.isArray(data)) {
    const is64 = array === BigInt64Array || array === BigUint64Array;
    return is64 ? array.from(data, BigInt) : array.from(data);
  }
  throw new TypeError(`the data of a tensor of type \`${type}\` must be a ${array.name}`);
}

function checkedDims(dims) {
  if (!Array.isArray(dims)) throw new TypeError('the dimensions of a tensor must be an array of numbers');
  for (const dim of dims) {
    if (!Number.isSafeInteger(dim) || dim < 0) throw new RangeError(`a dimension must be a non-negative integer, not ${dim}`);
  }
  return Object.freeze([...dims]);
}

/** A tensor in JavaScript's memory. */
export class Tensor {
  #data;

  /** `new Tensor(type, data, dims?)` or `new Tensor(data, dims?)`; without dimensions, it is a vector. */
  constructor(...args) {
    const [type, data, dims] = typeof args[0] === 'string' ? args : [typeOf(args[0]), ...args];
    this.type = type;
    this.#data = arrayOf(type, data);
    const perEntry = PER_ENTRY[type] ?? 1;
    this.dims = checkedDims(dims ?? [this.#data.length * perEntry]);
    this.size = this.dims.reduce((product, dim) => product * dim, 1);
    const wanted = Math.ceil(this.size / perEntry);
    if (wanted !== this.#data.length) {
      throw new RangeError(`dimensions [${this.dims}] need ${wanted} entries, but the data has ${this.#data.length}`);
    }
    this.location = 'cpu';
  }

  /** The elements, not copied. */
  get data() {
    if (this.#data === undefined) throw new Error('the tensor was disposed');
    return this.#data;
  }

  /** The elements, which are always in JavaScript's memory. */
  async getData() {
    return this.data;
  }

  /** The same elements with other dimensions. */
  reshape(dims) {
    return new Tensor(this.type, this.data, dims);
  }

  /** Releases the elements. */
  dispose() {
    this.#data = undefined;
    this.location = 'none';
  }
}

/** The bytes of a typed array, not copied. */
export function bytesOf(data) {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A tensor from the object that the module returns. */
export function tensorOf({ type, dims, data }) {
  if (type === 'string') return new Tensor(type, data, dims);
  return new Tensor(type, new ARRAYS[type](data.buffer), dims);
}
