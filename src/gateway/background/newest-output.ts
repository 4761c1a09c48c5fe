import type { StreamName } from "../../anchor/host-interface.js";
import type { RunRecord } from "../../model/run.js";
import { readOutputText } from "../../queries/output.js";
import type { Supervisor } from "../../supervisor/api.js";
import { redactText } from "../../text/redact.js";
import { sanitizeText } from "../../text/sanitize.js";

/** Bytes of output read to find the last line. */
const SUMMARY_LINES = 20;
const SUMMARY_CHARS = 2_000;

type OutputReader = Pick<Supervisor, "readOutput">;

/** The last output line of a command, of its standard error if it failed. Null: none is kept. */
export async function summarizeOutput(
  reader: OutputReader,
  { runId, exit }: RunRecord,
): Promise<string | null> {
  const wentWell = exit?.reason === "exit" && exit.code === 0;
  for (const stream of wentWell ? (["stdout", "stderr"] as const) : (["stderr", "stdout"] as const)) {
    const { text } = await readTail(reader, runId, stream, 0, true);
    const lines = sanitizeAndRedact(text).trimEnd().split("\n").slice(-SUMMARY_LINES).join("\n");
    if (lines.trim() !== "") return lines;
  }
  return null;
}

export type StreamOffsets = Readonly<Record<StreamName, number>>;

interface NewestLine {
  /** The newest line that is not blank. Empty: none. */
  readonly line: string;
  /** The offsets after the read. */
  readonly offsets: StreamOffsets;
}

/** The newest output line of a running command. */
export async function readNewestLine(
  reader: OutputReader,
  runId: string,
  from: StreamOffsets,
): Promise<NewestLine> {
  const stdout = await readTail(reader, runId, "stdout", from.stdout, false);
  const stderr = await readTail(reader, runId, "stderr", from.stderr, false);
  const line = [stderr, stdout]
    .flatMap(({ text }) => sanitizeAndRedact(text).split(/[\n\r]/))
    .findLast((each) => each.trim() !== "");
  return { line: line ?? "", offsets: { stdout: stdout.nextOffset, stderr: stderr.nextOffset } };
}

/** Redacted, because notifications reach more readers than the output does. */
function sanitizeAndRedact(text: string): string {
  return redactText(sanitizeText(text));
}

function readTail(
  reader: OutputReader,
  runId: string,
  stream: StreamName,
  from: number,
  ended: boolean,
): ReturnType<typeof readOutputText> {
  return readOutputText(
    (name, options) => reader.readOutput(runId, name, options),
    stream,
    from,
    SUMMARY_CHARS,
    ended,
  );
}
