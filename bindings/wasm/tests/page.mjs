// Runs the models in a page and in its worker, and posts the outcome to the server.

const worker = new Worker('worker.mjs', { type: 'module' });
const inWorker = new Promise((resolve, reject) => {
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
});

async function answer() {
  const { report } = await import('./worker.mjs');
  return `ok: page ${await report()}; worker ${await inWorker}`;
}

await fetch('/answer', { method: 'POST', body: await answer().catch((error) => `failed: ${error.stack}`) });
