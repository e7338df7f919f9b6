// Runs the models, read from the server; in a worker, posts the outcome to the page.

import { MODELS, worst } from './models.mjs';

async function read(path) {
  const response = await fetch(`/models/${path}`);
  return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined;
}

/** The errors of all models; throws if one exceeds its tolerance. */
export async function report() {
  const errors = [];
  for (const path of MODELS) {
    const error = await worst(read, path);
    if (!(error <= 1)) throw new Error(`${path}: ${error} times its tolerance`);
    errors.push(error.toFixed(3));
  }
  return errors.join(' ');
}

if (typeof WorkerGlobalScope !== 'undefined') report().then(postMessage, (error) => { throw error; });
