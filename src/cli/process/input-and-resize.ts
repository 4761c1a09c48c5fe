import { readFileSync } from "node:fs";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";

interface RunControl {
  readonly runId: string;
  readonly client: GatewayConnection["client"];
  /** With `--json`, prints what was done. */
  readonly done: (what: object) => number;
}

async function connectToRun(wanted: string, json: boolean): Promise<RunControl> {
  const connection = await connectOrStart();
  const runId = await resolveRunId(connection, wanted);
  const done = (what: object): number => {
    if (json) print(toJson({ runId, ...what }));
    return 0;
  };
  return { runId, client: connection.client, done };
}

/** Writes `text` to the run's stdin; null: what comes on our own stdin. */
export async function writeStdin(
  wanted: string,
  text: string | null,
  close: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const bytes = text === null ? readFileSync(0) : Buffer.from(text);
  const body = bytes.length === 0 && close ? { close } : { base64: bytes.toString("base64"), close };
  await client.write({ params: { runId }, body });
  return done({ bytes: bytes.length, closed: close });
}

export async function sendKeysCommand(
  wanted: string,
  keys: readonly string[],
  literal: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const words = literal ? keys.map((word) => `literal:${word}`) : [...keys];
  await client.sendKeys({ params: { runId }, body: { keys: words } });
  return done({ keys: words });
}

export async function pasteText(
  wanted: string,
  text: string | null,
  submit: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const body = { text: text ?? readFileSync(0, "utf8"), submit };
  const { bracketed } = await client.paste({ params: { runId }, body });
  if (!bracketed && body.text.includes("\n"))
    notice("the program has not enabled bracketed paste, so each line was entered as if typed", "dim");
  return done({ characters: body.text.length, bracketed, submitted: submit });
}

export async function resizeTerminal(
  wanted: string,
  rows: number,
  cols: number,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  await client.resize({ params: { runId }, body: { rows, cols } });
  return done({ rows, cols });
}
