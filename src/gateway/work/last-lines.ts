import type { StreamName } from "../../anchor/host.js";
import { sanitizeText } from "../../output/sanitize.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import { redactText } from "../../supervisor/redact.js";
import { textFrom } from "../handlers/text-output.js";

/** What a person looks at first, of a command that has ended; and enough to find its last line. */
const LINES = 20;
const CHARS = 2_000;

type Reader = Pick<Supervisor, "readOutput">;

/** What came of a command: the last it said; of one that failed, what it complained about. Null: nothing that is kept. */
export async function lastLines(reader: Reader, { runId, exit }: RunRecord): Promise<string | null> {
  const wentWell = exit?.reason === "exit" && exit.code === 0;
  for (const stream of wentWell ? (["stdout", "stderr"] as const) : (["stderr", "stdout"] as const)) {
    const { text } = await tail(reader, runId, stream, 0, true);
    const lines = safe(text).trimEnd().split("\n").slice(-LINES).join("\n");
    if (lines.trim() !== "") return lines;
  }
  return null;
}

export type Ends = Readonly<Record<StreamName, number>>;

export interface Said {
  /** The newest line that is not blank; empty: there is none. */
  readonly line: string;
  /** How far it has been read. */
  readonly ends: Ends;
}

/** What a command has said since, that goes on. */
export async function lastLine(reader: Reader, runId: string, from: Ends): Promise<Said> {
  const stdout = await tail(reader, runId, "stdout", from.stdout, false);
  const stderr = await tail(reader, runId, "stderr", from.stderr, false);
  const line = [stderr, stdout]
    .flatMap(({ text }) => safe(text).split(/[\n\r]/))
    .findLast((each) => each.trim() !== "");
  return { line: line ?? "", ends: { stdout: stdout.nextOffset, stderr: stderr.nextOffset } };
}

/** It may be told to others than those who may read the output. */
function safe(text: string): string {
  return redactText(sanitizeText(text));
}

function tail(
  reader: Reader,
  runId: string,
  stream: StreamName,
  from: number,
  ended: boolean,
): ReturnType<typeof textFrom> {
  return textFrom((name, options) => reader.readOutput(runId, name, options), stream, from, CHARS, ended);
}
