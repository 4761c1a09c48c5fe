import { type FilePlan, type ServerPlan, verifyText } from "./apply-file-plans.js";
import type { ConfigFile } from "./clients.js";
import { applyEdits, type ConfigDocument, type Edit } from "./file/config-document.js";
import type { LoadedFile } from "./file/rewrite-file.js";
import { type ServerCommand, type ServerEntry, serverEntries } from "./server-entries.js";
import { unwrapEdits, wrapEdits } from "./wrap-entry.js";
import { wrappingWords } from "./wrapped-command.js";

/** A server, and the change that is planned for it. */
interface PlannedServer extends ServerPlan {
  readonly change: ServerChange | null;
}

/** A plan for a file that exists. */
export interface WrapPlan extends FilePlan {
  readonly text: string;
}

interface ServerChange {
  readonly edits: readonly Edit[];
  /** The values that the file must have afterwards. */
  readonly values: Readonly<Record<string, unknown>>;
}

export interface WrapRequest {
  readonly undo: boolean;
  /** Only these servers; empty: all. */
  readonly servers: readonly string[];
  /** The words that start `holdfast`. */
  readonly holdfast: readonly string[];
}

/** Decides about each server of a file. Rejects if the edits would change anything else. */
export async function planFile(
  file: ConfigFile,
  loaded: LoadedFile,
  request: WrapRequest,
): Promise<WrapPlan> {
  const { document } = loaded;
  const servers = serverEntries(file, document)
    .filter(({ name }) => request.servers.length === 0 || request.servers.includes(name))
    .map((entry) => planServer(file, document, entry, request));
  const edits = servers.flatMap(({ change }) => change?.edits ?? []);
  const text = applyEdits(document.text, edits);
  await verifyText(file, text, expectedValues(document, servers));
  return { file, loaded, servers, edits, text };
}

function planServer(
  { client }: ConfigFile,
  document: ConfigDocument,
  { name, path, state }: ServerEntry,
  { undo, holdfast }: WrapRequest,
): PlannedServer {
  const stays = (reason: string): PlannedServer => ({ name, path, change: null, changes: false, reason });
  const becomes = (change: ServerChange): PlannedServer => ({
    name,
    path,
    change,
    changes: true,
    reason: "",
  });
  if (state.kind === "left-alone") return stays(undo ? "not wrapped" : state.reason);
  if (state.kind === "holdfast") return stays(undo ? "not wrapped" : "is Holdfast itself");
  const { command } = state;
  const words = command.words.map(({ text }) => text);
  if (state.kind === "wrapped") {
    if (!undo) return stays("wrapped already");
    const { prefix, separated } = state.wrapped;
    const values = commandValues(command, words.slice(prefix), separated || words.length > prefix + 1);
    return becomes({ edits: unwrapEdits(document, command, state.wrapped), values });
  }
  if (undo) return stays("not wrapped");
  const prefix = (hasArgs: boolean): string[] => wrappingWords(client, name, hasArgs, holdfast);
  const hasArgs = command.inOneList || command.table.members.has("args");
  const values = commandValues(command, [...prefix(hasArgs), ...words], true);
  return becomes({ edits: wrapEdits(document, command, prefix), values });
}

/** The values of the keys of a command. Undefined: the table must not have the key. */
function commandValues(
  { inOneList }: ServerCommand,
  words: readonly string[],
  hasArgs: boolean,
): Record<string, unknown> {
  if (inOneList) return { command: words };
  const [command, ...args] = words;
  return { command, args: hasArgs ? args : undefined };
}

/** The values that the file has to have afterwards: the planned ones, and no others. */
function expectedValues({ values }: ConfigDocument, servers: readonly PlannedServer[]): unknown {
  const expected = structuredClone(values);
  for (const server of servers) {
    let table = expected as Record<string, unknown>;
    for (const key of server.path) table = table[key] as Record<string, unknown>;
    for (const [key, value] of Object.entries(server.change?.values ?? {}))
      if (value === undefined) delete table[key];
      else table[key] = value;
  }
  return expected;
}
