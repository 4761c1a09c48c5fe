import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";

type Row = Record<string, unknown>;
type QueryReply = { readonly rows: Row[] } | { readonly error: string };

const script = new URL("children/answer.mjs", import.meta.url);
let queryWorker: ((url: string, text: string, values: readonly unknown[]) => QueryReply) | null = null;

/** Asks a database and waits, as one asks SQLite: for tests that do so with either. */
export function openSyncQuery(url: string): (text: string, values: readonly unknown[]) => Row[] {
  return (text, values) => {
    queryWorker ??= startWorker();
    const answer = queryWorker(url, text, values);
    if ("error" in answer) throw new Error(`${text}: ${answer.error}`);
    return answer.rows;
  };
}

function startWorker(): NonNullable<typeof queryWorker> {
  const { port1, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(4));
  new Worker(script, { workerData: { port: port2, answered }, transferList: [port2] }).unref();
  return (url, text, values) => {
    Atomics.store(answered, 0, 0);
    port1.postMessage({ url, text, values });
    Atomics.wait(answered, 0, 0);
    return (receiveMessageOnPort(port1) as { readonly message: QueryReply }).message;
  };
}
