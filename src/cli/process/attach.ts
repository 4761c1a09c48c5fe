import { isatty } from "node:tty";
import type { WebSocket } from "ws";
import type { StreamName } from "../../anchor/host.js";
import { BadInput, GatewayUnreachable } from "../../errors.js";
import { type FromViewer, type ToViewer, unframe } from "../../gateway/attach-frames.js";
import type { RunRecord } from "../../store/run-record.js";
import { say } from "../complain.js";
import { exitCode } from "../exit-code.js";
import { bellQuery, ringBell } from "../gateway/bell.js";
import { openChannel } from "../gateway/channel.js";
import { needGateway, type Connection } from "../gateway/connect.js";
import { Outlet } from "../foreground/outlet.js";
import { takeTerminal } from "../foreground/terminal.js";
import { print } from "../runs/print.js";
import { pendingText, statusOf } from "../runs/status.js";
import { fullRunId } from "./act.js";

/** `C-]` as telnet has it: no program that people attach to wants it. */
const DETACH = 0x1d;

/** Undoes what a program asked of the terminal and cannot take back: mouse, focus, paste, keypad, cursor, colours. */
const CALM =
  "\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?1004l\u001b[?2004l\u001b[?1l\u001b>\u001b[?25h\u001b[0m";
const LEAVE_ALTERNATE = "\u001b[?1049l";

/**
 * How a viewing ends: with the run (null: its end is not known), with whoever reads it, by the detach key, or because
 * the gateway went.
 */
type Ending =
  | { readonly how: "ended"; readonly record: RunRecord | null; readonly recordPending: string | null }
  | { readonly how: "unread"; readonly failure: unknown }
  | { readonly how: "detached" | "broken" };

/** Be a run's terminal, together with whoever else is. The detach key leaves; the run does not notice. */
export async function attachTo(wanted: string, readOnly: boolean): Promise<number> {
  if (!readOnly && !isatty(0))
    throw new BadInput("stdin", "attach needs a terminal for its keys; say --read-only to watch");
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const { io } = await connection.client.getRun({ params: { runId } });
  let refuse: (error: Error) => void = () => {};
  const refused = new Promise<never>((_, reject) => (refuse = reject));
  const viewer = openChannel(connection, runId, bellQuery(), refuse);
  try {
    const ending = await Promise.race([follow(viewer, readOnly, io === "pty"), refused]);
    switch (ending.how) {
      case "detached":
        await calm(connection, runId, "\n");
        say(`detached from ${runId}; it goes on`, "dim");
        return 0;
      case "broken":
        await calm(connection, runId, "\n");
        throw new GatewayUnreachable(
          `the gateway went away; ${runId} stays with its anchor. Attach again when a gateway runs`,
        );
      case "unread":
        throw ending.failure;
      case "ended":
        await calm(connection, runId);
        if (ending.record === null)
          throw new GatewayUnreachable(`${runId}: its output has ended, how it ended is not known`);
        if (ending.recordPending !== null) say(pendingText(ending.record, ending.recordPending), "yellow");
        else say(`${runId} has ended: ${statusOf(ending.record)}`, "dim");
        return exitCode(ending.record);
    }
  } finally {
    viewer.terminate();
  }
}

async function follow(viewer: WebSocket, readOnly: boolean, terminalThere: boolean): Promise<Ending> {
  let input: Disposable | null = null;
  const outlets = { stdout: new Outlet(1), stderr: new Outlet(2) };
  let unwritten = 0;
  try {
    const ending = await new Promise<Ending>((resolve) => {
      const show = async (stream: StreamName, bytes: Uint8Array): Promise<void> => {
        unwritten += 1;
        viewer.pause();
        await outlets[stream].write(bytes);
        unwritten -= 1;
        if (unwritten === 0) viewer.resume();
      };
      viewer.on("close", () => resolve({ how: "broken" }));
      viewer.on("message", (data: Buffer, binary: boolean) => {
        if (binary) {
          const { stream, bytes } = unframe(data);
          if (stream !== "stdin")
            show(stream, bytes).catch((failure: unknown) => resolve({ how: "unread", failure }));
          return;
        }
        const message = JSON.parse(data.toString("utf8")) as ToViewer;
        switch (message.type) {
          case "attached":
            if (!readOnly) input = passKeys(viewer, terminalThere, () => resolve({ how: "detached" }));
            return;
          case "bell":
            return ringBell();
          case "refused":
            return say(message.message, "yellow");
          case "ended":
            return resolve({
              how: "ended",
              record: message.record,
              recordPending: message.recordPending ?? null,
            });
          case "accepted":
          case "unread":
          case "state":
            // Told to callers only.
            return;
        }
      });
    });
    await Promise.all([outlets.stdout.idle(), outlets.stderr.idle()]);
    return ending;
  } finally {
    (input as Disposable | null)?.[Symbol.dispose]();
  }
}

function passKeys(viewer: WebSocket, terminalThere: boolean, detach: () => void): Disposable {
  say("attached; C-] detaches", "dim");
  const tell = (message: FromViewer): void => viewer.send(JSON.stringify(message));
  const terminal = takeTerminal(process.stdin, ({ rows, cols }) => {
    if (terminalThere) tell({ type: "resize", rows, cols });
  });
  const onData = (data: Buffer): void => {
    const at = data.indexOf(DETACH);
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

/** The program goes on without this terminal, or had no time to tidy up: what it had set here is set back. */
async function calm({ client }: Connection, runId: string, end = ""): Promise<void> {
  if (!isatty(1)) return;
  const screen = await client.screen({ params: { runId } }).catch(() => null);
  print(`${screen?.alternate === true ? LEAVE_ALTERNATE : ""}${CALM}${end}`);
}
