import { defaults } from "../defaults.js";
import { errorMessage } from "../home/errno.js";
import { sanitizeLine } from "../text/sanitize.js";
import type { RunRecord } from "../model/run.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import { redactText } from "../text/redact.js";
import { DeliveryFailed } from "../tasks/delivery.js";
import { truncate } from "../text/truncate.js";

export type Spawner = Pick<Supervisor, "spawn">;

export interface ProgramCall {
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
      throw notStartedError(cause);
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

function notStartedError(cause: unknown): DeliveryFailed {
  const why = errorMessage(cause);
  return new DeliveryFailed(`the program was not started: ${why}`, { cause });
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
