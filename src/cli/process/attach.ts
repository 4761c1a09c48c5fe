import { isatty } from "node:tty";
import type { WebSocket } from "ws";
import type { StreamName } from "../../anchor/host-interface.js";
import { type AttachClientMessage, type AttachServerMessage, decodeFrame } from "../../api/attach-frames.js";
import { BadInput, GatewayUnreachable } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { bellQuery, openAttachSocket, ringBell } from "../client/attach-socket.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { runExitCode } from "../print/exit-code.js";
import { pendingRecordText, runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { FdWriter, print } from "../print/write-output.js";
import { enterRawTerminal } from "../run/controlling-terminal.js";

/** `C-]` as in telnet: hardly any program uses it. */
const DETACH_KEY = 0x1d;

/** Resets the modes that a program may have set: mouse, focus, paste, keypad, cursor, colours. */
const RESET_TERMINAL =
  "\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?1004l\u001b[?2004l\u001b[?1l\u001b>\u001b[?25h\u001b[0m";
const LEAVE_ALTERNATE = "\u001b[?1049l";

/**
 * How attaching ends: with the run (null: its end is not known), with a failed write, by the detach key, or with the
 * gateway.
 */
type AttachEnd =
  | { readonly how: "ended"; readonly record: RunRecord | null; readonly recordPending: string | null }
  | { readonly how: "unread"; readonly failure: unknown }
  | { readonly how: "detached" | "broken" };

/** Connects this terminal to a run. The detach key detaches; the run continues. */
export async function attachToRun(wanted: string, readOnly: boolean): Promise<number> {
  if (!readOnly && !isatty(0))
    throw new BadInput("stdin", "attach needs a terminal for its keys; use --read-only to watch");
  const connection = await connectOrStart();
  const runId = await resolveRunId(connection, wanted);
  const { io } = await connection.client.getRun({ params: { runId } });
  let refuse: (error: Error) => void = () => {};
  const refused = new Promise<never>((_, reject) => (refuse = reject));
  const viewer = openAttachSocket(connection, runId, bellQuery(), refuse);
  try {
    const ending = await Promise.race([followSocket(viewer, readOnly, io === "pty"), refused]);
    switch (ending.how) {
      case "detached":
        await resetTerminal(connection, runId, "\n");
        notice(`detached from ${runId}; the run continues`, "dim");
        return 0;
      case "broken":
        await resetTerminal(connection, runId, "\n");
        throw new GatewayUnreachable(
          `the connection to the gateway was lost; ${runId} continues under its anchor. Attach again when a gateway is running`,
        );
      case "unread":
        throw ending.failure;
      case "ended":
        await resetTerminal(connection, runId);
        if (ending.record === null)
          throw new GatewayUnreachable(`${runId}: its output has ended, but its outcome is not known`);
        if (ending.recordPending !== null)
          notice(pendingRecordText(ending.record, ending.recordPending), "yellow");
        else notice(`${runId} has ended: ${runStatusText(ending.record)}`, "dim");
        return runExitCode(ending.record);
    }
  } finally {
    viewer.terminate();
  }
}

async function followSocket(viewer: WebSocket, readOnly: boolean, isPty: boolean): Promise<AttachEnd> {
  let input: Disposable | null = null;
  const writers = { stdout: new FdWriter(1), stderr: new FdWriter(2) };
  let unwritten = 0;
  try {
    const ending = await new Promise<AttachEnd>((resolve) => {
      const show = async (stream: StreamName, bytes: Uint8Array): Promise<void> => {
        unwritten += 1;
        viewer.pause();
        await writers[stream].write(bytes);
        unwritten -= 1;
        if (unwritten === 0) viewer.resume();
      };
      viewer.on("close", () => resolve({ how: "broken" }));
      viewer.on("message", (data: Buffer, binary: boolean) => {
        if (binary) {
          const { stream, bytes } = decodeFrame(data);
          if (stream !== "stdin")
            show(stream, bytes).catch((failure: unknown) => resolve({ how: "unread", failure }));
          return;
        }
        const message = JSON.parse(data.toString("utf8")) as AttachServerMessage;
        switch (message.type) {
          case "attached":
            if (!readOnly) input = forwardKeys(viewer, isPty, () => resolve({ how: "detached" }));
            return;
          case "bell":
            return ringBell();
          case "refused":
            return notice(message.message, "yellow");
          case "ended":
            return resolve({
              how: "ended",
              record: message.record,
              recordPending: message.recordPending ?? null,
            });
          case "accepted":
          case "unread":
          case "state":
            // Only sent to the client of a foreground run.
            return;
        }
      });
    });
    await Promise.all([writers.stdout.idle(), writers.stderr.idle()]);
    return ending;
  } finally {
    (input as Disposable | null)?.[Symbol.dispose]();
  }
}

function forwardKeys(viewer: WebSocket, isPty: boolean, detach: () => void): Disposable {
  notice("attached; C-] detaches", "dim");
  const send = (message: AttachClientMessage): void => viewer.send(JSON.stringify(message));
  const terminal = enterRawTerminal(process.stdin, ({ rows, cols }) => {
    if (isPty) send({ type: "resize", rows, cols });
  });
  const onData = (data: Buffer): void => {
    const at = data.indexOf(DETACH_KEY);
    if (at !== 0) viewer.send(at < 0 ? data : data.subarray(0, at));
    if (at >= 0) detach();
  };
  process.stdin.on("data", onData);
  return {
    [Symbol.dispose]() {
      process.stdin.off("data", onData);
      process.stdin.pause();
      terminal[Symbol.dispose]();
    },
  };
}

/** Resets this terminal: the program continues without it, or could not reset it. */
async function resetTerminal({ client }: GatewayConnection, runId: string, end = ""): Promise<void> {
  if (!isatty(1)) return;
  const screen = await client.screen({ params: { runId } }).catch(() => null);
  print(`${screen?.alternate === true ? LEAVE_ALTERNATE : ""}${RESET_TERMINAL}${end}`);
}
