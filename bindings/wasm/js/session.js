// Sessions, with the names and behaviour of onnxruntime-web.

import { fetched, module } from './module.js';
import { copyFeeds, valueOf } from './values.js';

/** Options of onnxruntime-web that have no effect: this package lacks what they configure. */
const IGNORED = new Set([
  'enableCpuMemArena', 'enableGraphCapture', 'enableMemPattern', 'executionMode', 'interOpNumThreads', 'intraOpNumThreads',
  'logId', 'logSeverityLevel', 'logVerbosityLevel', 'preferredOutputLocation',
]);
const PROVIDERS = new Set(['wasm', 'cpu']);

/** The bytes of a model or an external file, given as a URL or as bytes. */
async function bytesOf(source) {
  if (typeof source === 'string' || source instanceof URL) {
    const found = await fetched(source);
    return new Uint8Array(found instanceof Uint8Array ? found : await found.arrayBuffer());
  }
  if (source instanceof Uint8Array) return source;
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const isShared = typeof SharedArrayBuffer !== 'undefined' && source instanceof SharedArrayBuffer;
  if (isShared || source instanceof ArrayBuffer) return new Uint8Array(source);
  if (source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  throw new TypeError('a model must be a URL, an ArrayBuffer, a typed array, or a Blob');
}

/** `{ session: { a: 1 } }` as the keys of docs/options.md: `session.a`. */
function* entries(extra, prefix = '') {
  for (const [key, value] of Object.entries(extra)) {
    if (typeof value === 'object' && value !== null) yield* entries(value, `${prefix}${key}.`);
    else yield [prefix + key, typeof value === 'boolean' ? String(Number(value)) : String(value)];
  }
}

const SETTERS = {
  async executionProviders(_, providers) {
    for (const provider of providers) {
      const name = typeof provider === 'string' ? provider : provider.name;
      if (!PROVIDERS.has(name)) throw new Error(`no execution provider \`${name}\`: only wasm is available`);
    }
  },
  async graphOptimizationLevel(builder, level) {
    builder.level(level === 'disabled' ? 'disable' : level);
  },
  async freeDimensionOverrides(builder, sizes) {
    for (const [name, size] of Object.entries(sizes)) builder.freeDimension(name, size);
  },
  async externalData(builder, files) {
    for (const file of files) {
      const { path, data } = typeof file === 'string' ? { path: file, data: file } : file;
      builder.externalData(path, await bytesOf(data));
    }
  },
  async extra(builder, extra) {
    for (const [key, value] of entries(extra)) builder.config(key, value);
  },
};

/** A model that is ready to run. */
export class InferenceSession {
  #native;

  constructor(native) {
    this.#native = native;
    this.inputMetadata = Object.freeze(native.inputs());
    this.outputMetadata = Object.freeze(native.outputs());
    this.inputNames = Object.freeze(this.inputMetadata.map(({ name }) => name));
    this.outputNames = Object.freeze(this.outputMetadata.map(({ name }) => name));
    this.metadata = Object.freeze({ ...native.metadata(), custom: new Map(native.metadata().custom) });
  }

  /** `create(url | bytes, options?)` or `create(buffer, byteOffset, byteLength?, options?)`. */
  static async create(source, ...rest) {
    const options = typeof rest[0] === 'number' ? (rest.find((arg) => typeof arg === 'object') ?? {}) : (rest[0] ?? {});
    let model = await bytesOf(source);
    if (typeof rest[0] === 'number') {
      const end = typeof rest[1] === 'number' ? rest[0] + rest[1] : model.length;
      if (rest[0] < 0 || end > model.length) throw new RangeError(`bytes ${rest[0]} to ${end} of ${model.length}`);
      model = model.subarray(rest[0], end);
    }
    const { Builder } = await module();
    const builder = new Builder();
    for (const [key, value] of Object.entries(options)) {
      if (value === undefined || IGNORED.has(key)) continue;
      if (!Object.hasOwn(SETTERS, key)) throw new Error(`no option \`${key}\``);
      await SETTERS[key](builder, value);
    }
    return new InferenceSession(builder.load(model));
  }

  get #open() {
    if (this.#native === undefined) throw new Error('the session was released');
    return this.#native;
  }

  /** `run(feeds, fetches?, options?)`: the values of the outputs, by name. */
  async run(feeds, ...rest) {
    const native = this.#open;
    const { Feeds } = await module();
    const isFetches = Array.isArray(rest[0]) || Object.keys(rest[0] ?? {}).some((name) => this.outputNames.includes(name));
    const [fetches, options] = isFetches ? rest : [undefined, rest[1] ?? rest[0]];
    if (options?.terminate) throw new Error('the run was terminated before it started');
    const names = Array.isArray(fetches) ? fetches : Object.keys(fetches ?? {});
    const wanted = names.length ? names : [...this.outputNames];
    const values = native.run(copyFeeds(feeds, new Feeds()), wanted, options?.tag ?? '');
    return Object.fromEntries(wanted.map((name, i) => [name, stored(fetches?.[name], valueOf(values[i]))]));
  }

  /** Runs the model and returns `{ name, operator, kernel, milliseconds }` of each step. */
  async profile(feeds) {
    const native = this.#open;
    const { Feeds } = await module();
    return native.profile(copyFeeds(feeds, new Feeds()));
  }

  /** Releases the memory of the session. */
  async release() {
    this.#open.free();
    this.#native = undefined;
  }
}

/** A value, copied to the caller's tensor if there is one. */
function stored(target, value) {
  if (!target?.data) return value;
  if (target.type !== value.type || String(target.dims) !== String(value.dims)) {
    throw new RangeError(`the output is ${value.type}[${value.dims}], its tensor ${target.type}[${target.dims}]`);
  }
  if (value.type === 'string') value.data.forEach((text, i) => (target.data[i] = text));
  else target.data.set(value.data);
  return target;
}
