import { isatty } from "node:tty";
import { WebSocket } from "ws";
import { BadInput, GatewayUnreachable } from "../../errors.js";
import { type FromViewer, type ToViewer, unframe } from "../../gateway/attach-frames.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import { readOperatorToken } from "../../gateway/server/requester.js";
import type { RunRecord } from "../../store/run-record.js";
import { say } from "../complain.js";
import { exitCode } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { takeTerminal } from "../foreground/terminal.js";
import { statusOf } from "../runs/status.js";
import { fullRunId } from "./act.js";

/** `C-]` as telnet has it: no program that people attach to wants it. */
const DETACH = 0x1d;

/** Be a run's terminal, together with whoever else is. The detach key leaves; the run does not notice. */
export async function attachTo(wanted: string, readOnly: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const token = process.env["HOLDFAST_TOKEN"] ?? (await readOperatorToken(connection.home));
  const viewer = new WebSocket(`ws+unix://${gatewaySocket(connection.home)}:/v1/runs/${runId}/attach`, {
    headers: { authorization: `Bearer ${token ?? ""}` },
    perMessageDeflate: false,
  });
  const tell = (message: FromViewer): void => viewer.send(JSON.stringify(message));
  const ended = new Promise<RunRecord | null | "left">((resolve, reject) => {
    viewer.on("error", (cause) =>
      reject(new GatewayUnreachable(`cannot attach to ${runId}: ${cause.message}`, { cause })),
    );
    viewer.on("close", () => resolve("left"));
    viewer.on("message", (data: Buffer, binary: boolean) => {
      if (binary) {
        const { stream, bytes } = unframe(data);
        process[stream].write(bytes);
        return;
      }
      const message = JSON.parse(data.toString("utf8")) as ToViewer;
      if (message.type === "refused") say(message.message, "yellow");
      if (message.type === "ended") resolve(message.record);
    });
  });
  await new Promise<void>((resolve, reject) => {
    viewer.once("open", resolve);
    ended.then(() => resolve(), reject);
  });
  const input = readOnly ? null : passKeys(viewer, tell);
  try {
    const record = await ended;
    if (record === "left") {
      say(`detached from ${runId}; it goes on`, "dim");
      return 0;
    }
    if (record === null) return 0;
    say(`${runId} has ended: ${statusOf(record)}`, "dim");
    return exitCode(record);
  } finally {
    input?.[Symbol.dispose]();
    viewer.terminate();
  }
}

function passKeys(viewer: WebSocket, tell: (message: FromViewer) => void): Disposable {
  if (!isatty(0))
    throw new BadInput("stdin", "attach needs a terminal for its keys; say --read-only to watch");
  say("attached; C-] detaches", "dim");
  const terminal = takeTerminal(process.stdin, ({ rows, cols }) => tell({ type: "resize", rows, cols }));
  const onData = (data: Buffer): void => {
    const at = data.indexOf(DETACH);
    if (at !== 0) viewer.send(at < 0 ? data : data.subarray(0, at));
    if (at >= 0) viewer.close();
  };
  process.stdin.on("data", onData);
  const { rows, columns } = process.stdout;
  if (rows > 0 && columns > 0) tell({ type: "resize", rows, cols: columns });
  return {
    [Symbol.dispose]() {
      process.stdin.off("data", onData);
      process.stdin.pause();
      terminal?.[Symbol.dispose]();
    },
  };
}
