// Embeds sentences by @huggingface/transformers, with a model of a local folder, and prints the embeddings.
//
//     embed.mjs FOLDER MODEL LIBRARY SENTENCE...
//
// Fails unless LIBRARY is the library that was loaded.

import { env, pipeline } from '@huggingface/transformers';

const [folder, model, library, ...sentences] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = folder;
const extract = await pipeline('feature-extraction', model, { dtype: 'fp32' });
const embeddings = await extract(sentences, { pooling: 'mean', normalize: true });
if (!process.report.getReport().sharedObjects.includes(library)) {
  throw new Error(`${library} was not loaded`);
}
console.log(JSON.stringify(embeddings.tolist()));
await extract.dispose();
