import { isDeepStrictEqual } from "node:util";
import { resolveHome } from "../../home/state-directory.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { makeNativeCommand } from "../shellenv/native-command.js";
import { CLIENT_NAMES, type ConfigFile } from "./clients.js";
import { badFile, type Edit } from "./file/config-document.js";
import {
  backupPath,
  createFile,
  type LoadedFile,
  parseDocument,
  removeBackup,
  removeFile,
  rewriteFile,
} from "./file/rewrite-file.js";
import { unifiedDiff } from "./file/unified-diff.js";

/** A file and the planned changes of its text. */
export interface FilePlan {
  readonly file: ConfigFile;
  /** Null: there is no such file yet. */
  readonly loaded: LoadedFile | null;
  readonly servers: readonly ServerPlan[];
  readonly edits: readonly Edit[];
  /** The text with the edits. Null: the file is removed. */
  readonly text: string | null;
}

export interface ServerPlan {
  readonly name: string;
  /** The keys from the top of the file, with the name. */
  readonly path: readonly string[];
  readonly changes: boolean;
  /** Why it stays as it is; empty if it changes. */
  readonly reason: string;
}

interface ChangeFlags {
  readonly undo: boolean;
  readonly apply: boolean;
  readonly json: boolean;
}

/** Prints the plans, and with `apply` changes the files. */
export async function changeFiles(
  plans: readonly FilePlan[],
  { undo, apply, json }: ChangeFlags,
): Promise<void> {
  const changed = plans.filter(({ edits }) => edits.length > 0);
  if (!json) for (const plan of plans) printPlan(plan);
  if (apply && changed.length > 0) {
    if (!undo && process.platform !== "win32") await makeNativeCommand(resolveHome());
    for (const plan of changed) await applyPlan(plan, undo, json);
  }
  if (json)
    print(
      toJson(
        plans.map((plan) => planJson(plan, apply)),
        2,
      ),
    );
  else if (!apply && changed.length > 0) notice("nothing was changed; --apply does it", "dim");
}

function printPlan({ file, loaded, servers, edits }: FilePlan): void {
  print(`${CLIENT_NAMES[file.client]}: ${sanitizeLine(file.path)}\n`);
  for (const server of servers)
    if (!server.changes) print(`  ${sanitizeLine(serverText(server))} stays as it is: ${server.reason}\n`);
  if (edits.length > 0) print(sanitizeText(unifiedDiff(file.path, loaded?.document.text ?? "", edits)));
}

/** The name of a server, with its project if the file has the servers of several projects. */
function serverText({ name, path }: ServerPlan): string {
  return path[0] === "projects" ? `${name} (project ${path[1] ?? ""})` : name;
}

async function applyPlan({ file, loaded, text }: FilePlan, undo: boolean, quiet: boolean): Promise<void> {
  const say = (done: string): void => {
    if (!quiet) notice(`${done}. Restart ${CLIENT_NAMES[file.client]}`, "dim");
  };
  if (loaded === null) {
    await createFile(file.path, text ?? "", { isPrivate: file.scope === "user" });
    return say(`made ${file.path}`);
  }
  if (text === null) {
    await removeFile(file.path, loaded);
    return say(`removed ${file.path}`);
  }
  const target = await rewriteFile(file.path, loaded, text, { backup: !undo });
  if (undo) await removeBackup(target);
  say(`changed ${file.path}${undo ? "" : `; the file as it was is ${backupPath(target)}`}`);
}

function planJson({ file, servers, edits }: FilePlan, apply: boolean): object {
  const { client, scope, path } = file;
  return {
    ...{ client, scope, path },
    changed: apply && edits.length > 0,
    servers: servers.map(({ name, path: keys, changes, reason }) => ({
      ...{ name, keys },
      change: changes,
      reason: changes ? null : reason,
    })),
  };
}

/** Parses the new text again. Its values must be those expected, or one of the alternatives. */
export async function verifyText(
  { path, format }: ConfigFile,
  text: string,
  ...expected: readonly unknown[]
): Promise<void> {
  const { values } = await parseDocument(text, path, format).catch(() => ({ values: undefined }));
  const found = plain(values);
  if (!expected.some((each) => isDeepStrictEqual(found, plain(each))))
    throw badFile(
      path,
      null,
      "its servers are written in a form that cannot be changed without changing more",
    );
}

/** Without prototypes, which differ between parsers; the order of keys does not matter. */
function plain(values: unknown): unknown {
  return structuredClone(values);
}
