// The types of ort-wasm.

export type NumberType =
  | 'float32' | 'uint8' | 'int8' | 'uint16' | 'int16' | 'int32' | 'int64' | 'bool' | 'float16' | 'float64' | 'uint32' | 'uint64'
  | 'complex64' | 'complex128' | 'bfloat16' | 'float8e4m3fn' | 'float8e4m3fnuz' | 'float8e5m2' | 'float8e5m2fnuz'
  | 'float8e8m0' | 'uint4' | 'int4' | 'float4e2m1' | 'uint2' | 'int2';
export type Type = NumberType | 'string';

/** Tensors of type `float16` have a Float16Array if the engine supports it, otherwise a Uint16Array. */
export type TypedArray =
  | Float32Array | Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array | BigInt64Array | Float64Array | Uint32Array
  | BigUint64Array;

/** A tensor in JavaScript's memory. */
export class Tensor {
  /** Without dimensions, it is a vector. The array is not copied. */
  constructor(type: 'string', data: readonly string[], dims?: readonly number[]);
  constructor(type: 'bool', data: Uint8Array | readonly boolean[], dims?: readonly number[]);
  constructor(type: 'int64' | 'uint64', data: BigInt64Array | BigUint64Array | readonly (bigint | number)[], dims?: readonly number[]);
  constructor(type: NumberType, data: TypedArray | Uint8ClampedArray | readonly number[], dims?: readonly number[]);
  constructor(data: TypedArray | Uint8ClampedArray | readonly string[] | readonly boolean[], dims?: readonly number[]);

  readonly type: Type;
  readonly dims: readonly number[];
  /** The number of elements. */
  readonly size: number;
  readonly location: 'cpu' | 'none';
  /** The elements, not copied: strings in an array, other types in a typed array. Types below 8 bits are packed. */
  readonly data: TypedArray | string[];
  getData(): Promise<TypedArray | string[]>;
  reshape(dims: readonly number[]): Tensor;
  /** Releases the elements. */
  dispose(): void;
}

/** Inputs and outputs of models: sequences are arrays, maps `Map`s, and empty optionals null. */
export type Value = Tensor | Value[] | Map<bigint | string, number | bigint | string> | null;

export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  /** The element type; empty if it is not a tensor. */
  readonly type: Type | '';
  /** A number, the name of a free dimension, or an empty name. */
  readonly shape: readonly (number | string)[];
  /** Whether it may be omitted. */
  readonly hasDefault: boolean;
}

export interface ModelMetadata {
  readonly producerName: string;
  readonly graphName: string;
  readonly domain: string;
  readonly description: string;
  readonly version: bigint | null;
  readonly custom: ReadonlyMap<string, string>;
}

export interface SessionOptions {
  /** `wasm` and `cpu`; others are an error. */
  executionProviders?: readonly (string | { readonly name: string })[];
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  /** Sizes of free dimensions, by name. */
  freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** External files of the model, by their names in the model. */
  externalData?: readonly (string | { readonly path: string; readonly data: string | URL | Uint8Array | ArrayBuffer | Blob })[];
  /** Keys of docs/options.md, nested at their dots. */
  extra?: Readonly<Record<string, unknown>>;
  /** Accepted without effect. */
  readonly [ignored: string]: unknown;
}

export interface RunOptions {
  /** The name of the run in errors. */
  tag?: string;
  /** Fails before the run starts. */
  terminate?: boolean;
}

export type Feeds = Readonly<Record<string, Tensor>>;
/** Names of outputs; given tensors receive the elements. */
export type Fetches = readonly string[] | Readonly<Record<string, Tensor | null>>;

export interface Step {
  readonly name: string;
  readonly operator: string;
  readonly kernel: string;
  readonly milliseconds: number;
}

/** A model that is ready to run. */
export class InferenceSession {
  private constructor();
  static create(source: string | URL | Uint8Array | ArrayBufferLike | Blob, options?: SessionOptions): Promise<InferenceSession>;
  static create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions): Promise<InferenceSession>;

  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  readonly metadata: ModelMetadata;

  run(feeds: Feeds, options?: RunOptions): Promise<Record<string, Value>>;
  run(feeds: Feeds, fetches: Fetches, options?: RunOptions): Promise<Record<string, Value>>;
  /** Runs the model and measures the time of each step. */
  profile(feeds: Feeds): Promise<Step[]>;
  /** Releases the memory of the session. */
  release(): Promise<void>;
}

/** Settings of the module; they take effect until the first session is created. */
export const env: {
  wasm: {
    /** Where `ort_wasm_bg.wasm` is: a folder that ends with a slash, or the file. */
    wasmPaths: string | { wasm: string | URL } | undefined;
    /** The bytes of `ort_wasm_bg.wasm`, if they are loaded already. */
    wasmBinary: ArrayBuffer | Uint8Array | undefined;
    /** Always one. */
    numThreads: number;
  };
};
