import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";

type Row = Record<string, unknown>;
type Answer = { readonly rows: Row[] } | { readonly error: string };

const script = new URL("../children/answer.mjs", import.meta.url);
let asked: ((url: string, text: string, values: readonly unknown[]) => Answer) | null = null;

/** Asks a database and waits, as one asks SQLite: for tests that do so with either. */
export function askerOf(url: string): (text: string, values: readonly unknown[]) => Row[] {
  return (text, values) => {
    asked ??= begin();
    const answer = asked(url, text, values);
    if ("error" in answer) throw new Error(`${text}: ${answer.error}`);
    return answer.rows;
  };
}

function begin(): NonNullable<typeof asked> {
  const { port1, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(4));
  new Worker(script, { workerData: { port: port2, answered }, transferList: [port2] }).unref();
  return (url, text, values) => {
    Atomics.store(answered, 0, 0);
    port1.postMessage({ url, text, values });
    Atomics.wait(answered, 0, 0);
    return (receiveMessageOnPort(port1) as { readonly message: Answer }).message;
  };
}
