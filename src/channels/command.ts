import type { ChannelEntryOf } from "../config/channels.js";
import { defaults } from "../defaults.js";
import { errorMessage } from "../home/errno.js";
import type { Notification } from "../model/outbox.js";
import type { RunRecord } from "../model/run.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { redactText } from "../text/redact.js";
import { sanitizeLine } from "../text/sanitize.js";
import { truncate } from "../text/truncate.js";
import { boundText, type Channel, notificationPayload } from "./channel.js";

export type Spawner = Pick<Supervisor, "spawn">;

interface ProgramCall {
  /** The channel, which becomes a label of the run. */
  readonly name: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly input: string;
  readonly timeoutMs: number;
}

const CHANNEL_BACKEND = "channel";

/** Runs the program of a channel as an ordinary run. It succeeds if it exits with 0. Resolves with the run's id. */
export async function runChannelProgram(
  spawner: Spawner,
  call: ProgramCall,
  signal: AbortSignal,
): Promise<string> {
  const { name, argv, env, input, timeoutMs } = call;
  const run = await spawner
    .spawn(
      { io: "pipe", argv },
      {
        ...{ env, timeoutMs, signal, labels: { channel: name } },
        backendId: CHANNEL_BACKEND,
        onEscape: "sweep",
        stdin: "pipe",
      },
    )
    .catch((cause: unknown) => {
      throw new DeliveryFailed(`the program was not started: ${errorMessage(cause)}`, { cause });
    });
  const [{ record }] = await Promise.all([run.end(), writeInput(run, input)]);
  const failure = describeFailedExit(record, timeoutMs);
  if (failure === null) return run.runId;
  const excerpt = await stderrExcerpt(run);
  throw new DeliveryFailed(`${failure}${excerpt === "" ? "" : `: ${excerpt}`} (${run.runId})`, {
    resultUnknown: record.exit?.reason !== "exit",
  });
}

/** Ignores failures: a program need not read its stdin. */
async function writeInput(run: Run, input: string): Promise<void> {
  await run
    .write(input)
    .then(() => run.closeStdin())
    .catch(() => undefined);
}

function describeFailedExit({ exit }: RunRecord, timeoutMs: number): string | null {
  if (exit?.reason === "exit") return exit.code === 0 ? null : `the program exited with ${exit.code}`;
  if (exit?.reason === "overall-timeout")
    return `the program was stopped after its timeout of ${timeoutMs} ms`;
  if (exit?.reason === "signal") return `the program was ended by ${exit.signal}`;
  return `the program was stopped (${exit?.reason ?? "lost"})`;
}

async function stderrExcerpt(run: Run): Promise<string> {
  const { bytes } = await run.read("stderr", { maxBytes: 4 * defaults.channelExcerptChars });
  // Sanitized first: removing an escape sequence can join the parts of a secret.
  return truncate(
    redactText(sanitizeLine(Buffer.from(bytes).toString().trim())),
    defaults.channelExcerptChars,
  );
}

/** Passes the notification on stdin as JSON and in the environment, never on the command line. */
export function commandChannel(name: string, entry: ChannelEntryOf<"command">, spawner: Spawner): Channel {
  return {
    deliver: (notification, address, signal) =>
      runChannelProgram(
        spawner,
        {
          name,
          argv: entry.argv,
          env: notificationVariables(notification, address),
          input: `${notificationPayload(notification, address)}\n`,
          timeoutMs: entry["timeout-ms"],
        },
        signal,
      ),
  };
}

/** Unknown values are empty. */
export function notificationVariables(
  notification: Notification,
  address: string | null,
): Readonly<Record<string, string>> {
  const { id, taskId, kind, status, outcome, label, runtime, summary, error, text } = notification;
  const values = {
    ...{ ID: id, TASK_ID: taskId, KIND: kind, STATUS: status, OUTCOME: outcome, LABEL: label },
    ...{ RUNTIME: runtime, SUMMARY: summary, ERROR: error, TEXT: text, ADDRESS: address },
  };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      `HOLDFAST_NOTIFICATION_${name}`,
      boundText(value ?? "").replaceAll("\0", "\uFFFD"),
    ]),
  );
}
