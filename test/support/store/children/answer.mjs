// A thread that queries databases for a thread that waits: { url, text, values } in, { rows } or { error } out.
import { workerData } from "node:worker_threads";
import { Client, types } from "pg";

const { port, answered } = workerData;
types.setTypeParser(types.builtins.INT8, Number);

async function ask({ url, text, values }) {
  const client = new Client({ connectionString: url, options: "-c search_path=holdfast" });
  try {
    await client.connect();
    const { rows } = await client.query(text, values);
    return { rows };
  } catch (error) {
    return { error: error.message };
  } finally {
    await client.end();
  }
}

port.on("message", async (question) => {
  port.postMessage(await ask(question));
  Atomics.store(answered, 0, 1);
  Atomics.notify(answered, 0);
});
