import { isDeepStrictEqual } from "node:util";
import { type FilePlan, type ServerPlan, verifyText } from "../apply-file-plans.js";
import type { ConfigFile, McpClient } from "../clients.js";
import { applyEdits, type Edit } from "../file/config-document.js";
import type { LoadedFile } from "../file/rewrite-file.js";
import { type EntryValues, insertEdits, newFileText, removeEdits } from "./insert-server.js";
import { type ServerEntry, serverEntries } from "../server-entries.js";

/** The name of Holdfast's own server in the files of clients. */
const OWN_NAME = "holdfast";

interface InstallRequest {
  readonly undo: boolean;
  /** The words that start the server. */
  readonly words: readonly string[];
}

/** A file of a client as it is now. */
export interface FoundFile {
  readonly file: ConfigFile;
  /** Null: there is none. */
  readonly loaded: LoadedFile | null;
  /** A backup is beside the file. */
  readonly hasBackup: boolean;
}

/**
 * The file that has the server. Otherwise the file to which the server is added: the first that exists, or else the first
 * that the client reads.
 */
export function chooseFile(found: readonly FoundFile[]): FoundFile | undefined {
  return (
    found.find((each) => ownEntry(each) !== undefined) ??
    found.find(({ loaded }) => loaded !== null) ??
    found[0]
  );
}

/** Plans to add Holdfast's own server to a file, or with `undo` to remove it. Rejects if anything else would change. */
export async function planInstall(found: FoundFile, { undo, words }: InstallRequest): Promise<FilePlan> {
  const { file, loaded } = found;
  const keys = [...(file.tables[0] ?? []), OWN_NAME];
  const plan = (reason: string, edits: readonly Edit[] = [], text: string | null = ""): FilePlan => {
    const server: ServerPlan = { name: OWN_NAME, path: keys, changes: reason === "", reason };
    return { file, loaded, servers: [server], edits, text };
  };
  const present = ownEntry(found);
  if (undo) {
    if (loaded === null || present === undefined) return plan("not installed");
    if (present.name !== OWN_NAME) return plan(`installed by another program or person, as ${present.name}`);
    return plan("", ...(await planRemoval(found, loaded, present)));
  }
  if (present !== undefined) return plan(presentReason(present, words));
  const entry = serverEntry(file.client, words);
  if (loaded === null || loaded.document.text.trim() === "") {
    const text = newFileText(file.format, keys, entry) + (loaded?.document.text ?? "");
    return plan("", [{ start: 0, end: 0, text }], text);
  }
  const { document } = loaded;
  if (valueAt(document.values, keys) !== undefined) return plan("another server has this name");
  const edits = insertEdits(document, keys, entry, file.path);
  const text = applyEdits(document.text, edits);
  const expected = structuredClone(document.values) as Record<string, unknown>;
  let table = expected;
  for (const key of keys.slice(0, -1)) table = (table[key] ??= {}) as Record<string, unknown>;
  table[OWN_NAME] = entry;
  await verifyText(file, text, expected);
  return plan("", edits, text);
}

function presentReason({ name, state }: ServerEntry, words: readonly string[]): string {
  if (name !== OWN_NAME) return `installed already, as ${name}`;
  const present = state.kind === "holdfast" ? state.command.words.map(({ text }) => text) : [];
  return isDeepStrictEqual(present, words)
    ? "installed already"
    : "installed already, with another command; --undo removes it";
}

async function planRemoval(
  { file, hasBackup }: FoundFile,
  { document }: LoadedFile,
  { path, state }: ServerEntry,
): Promise<[Edit[], string | null]> {
  const { text } = document;
  const words = state.kind === "holdfast" ? state.command.words.map((word) => word.text) : [];
  const added = newFileText(file.format, path, serverEntry(file.client, words));
  // The file has nothing else: it was created for the server, or was blank before.
  if (text.startsWith(added) && text.slice(added.length).trim() === "")
    return [
      [{ start: 0, end: added.length, text: "" }],
      text === added && !hasBackup ? null : text.slice(added.length),
    ];
  const edits = removeEdits(document, path);
  const rest = applyEdits(text, edits);
  await verifyText(file, rest, ...valuesWithout(document.values, path));
  return [edits, rest];
}

/** The values without a key: alone, and also without each table around it that is empty then. */
function valuesWithout(values: unknown, path: readonly string[]): unknown[] {
  const results: unknown[] = [];
  for (let length = path.length; length > 0; length--) {
    const result = structuredClone(values);
    const above = path.slice(0, length - 1);
    const table = valueAt(result, above) as Record<string, unknown>;
    delete table[path[length - 1] ?? ""];
    results.push(result);
    if (Object.keys(table).length > 0) break;
  }
  return results;
}

function valueAt(values: unknown, path: readonly string[]): unknown {
  let value = values;
  for (const key of path) value = (value as Record<string, unknown> | undefined)?.[key];
  return value;
}

/** The entry that starts Holdfast's own server. */
function ownEntry({ file, loaded }: FoundFile): ServerEntry | undefined {
  if (loaded === null) return undefined;
  const own = serverEntries(file, loaded.document).filter(({ state }) => state.kind === "holdfast");
  return own.find(({ name }) => name === OWN_NAME) ?? own[0];
}

/** The entry as the documentation of the client shows it. */
function serverEntry(client: McpClient, words: readonly string[]): EntryValues {
  const [command = "", ...args] = words;
  switch (client) {
    case "opencode":
      return { type: "local", command: words, enabled: true };
    case "claude":
    case "cursor":
    case "vscode":
      return { type: "stdio", command, args };
    case "claude-desktop":
    case "codex":
    case "gemini":
      return { command, args };
  }
}
