import { readFile } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { findAnchorBinary } from "../../../anchor/binary.js";
import { inspectProcesses } from "../../../anchor/inspect/processes.js";
import { BadInput } from "../../../errors.js";
import { readMachineIdentity } from "../../../home/machine-identity.js";
import { stateIdOf } from "../../../home/state-id.js";
import { resolveHome } from "../../../home/state-directory.js";
import { newRunId } from "../../../model/ids.js";
import { type ImportedFacts, NO_DEADLINES, NO_LIMITS, OPEN_RUN_STATES } from "../../../model/run.js";
import { openStore } from "../../../store/open.js";
import { openStateDirectory } from "../../../store/open-state-directory.js";
import type { NewRun } from "../../../store/runs/contract.js";
import type { Store } from "../../../store/store.js";
import { type ImportedEvidence, NEVER_OWNED } from "../../../supervisor/reconcile/decide.js";
import { compareImported } from "../../../supervisor/reconcile/evidence.js";
import { defaultPolicy } from "../../../supervisor/check-options.js";
import { commandHash, displayCommand } from "../../../text/redact.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { splitShellWords } from "../../../text/shell-words.js";
import { assertOperator } from "../../client/connect.js";
import { print, toJson } from "../../print/write-output.js";

/** Fields in camel or snake case, as other tools write them; other fields are ignored. */
const entrySchema = z
  .object({
    pid: z.int().min(2),
    command: z.string().min(1),
    wrapperRoot: z.string().optional(),
    wrapper_root: z.string().optional(),
    startTime: z.int().min(1).nullish(),
    sessionKey: z.string().min(1).nullish(),
    agentId: z.string().min(1).nullish(),
    labels: z.record(z.string(), z.string()).default({}),
  })
  .transform(({ wrapper_root, wrapperRoot = wrapper_root ?? "", ...rest }) => ({ ...rest, wrapperRoot }))
  .refine(({ wrapperRoot }) => isAbsolute(wrapperRoot), "needs an absolute wrapperRoot");
type ImportEntry = z.output<typeof entrySchema>;

/** Imports records of another tool. A record is believed only if process, path and command match. */
export async function importRuns(file: string, dryRun: boolean, json: boolean): Promise<number> {
  assertOperator("import processes");
  const entries = await readEntries(file);
  const comparisons = await inspectEntries(entries);
  const ids = dryRun ? entries.map(() => null) : await recordEntries(entries);
  const results = entries.map(({ pid, command }, at) => ({
    runId: ids[at] ?? null,
    pid,
    command: displayedCommand(command),
    ...toVerification(comparisons[at]),
  }));
  if (json) print(toJson(results, 2));
  else
    for (const { runId, pid, command, verified, why } of results)
      print(
        `${runId ?? "-"}  ${pid}  ${verified ? "verified" : "not verified"}: ${sanitizeLine(why)}  ${sanitizeLine(command)}\n`,
      );
  return 0;
}

async function readEntries(file: string): Promise<readonly ImportEntry[]> {
  let raw: unknown;
  try {
    const text = await readFile(file, "utf8");
    raw =
      text.trimStart().startsWith("[") || text.trim().split("\n").length === 1
        ? JSON.parse(text)
        : text
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line) as unknown);
  } catch (error) {
    throw new BadInput(
      "file",
      `${file} cannot be read as JSON (${(error as Error).message}); nothing was imported`,
    );
  }
  const list = Array.isArray(raw) ? raw : [raw];
  const parsed = z.array(entrySchema).safeParse(list);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const [at, ...field] = issue?.path ?? [];
  const message = issue?.message ?? "";
  const why = field.length === 0 ? message : `${field.join(".")}: ${message}`;
  throw new BadInput(
    "file",
    `${file}: entry ${typeof at === "number" ? at + 1 : "?"} cannot be used (${why}); nothing was imported`,
  );
}

async function inspectEntries(entries: readonly ImportEntry[]): Promise<readonly ImportedEvidence[]> {
  const evidence = await inspectProcesses(
    findAnchorBinary(),
    entries.map(({ pid }) => pid),
  );
  return entries.map((each, at) => {
    const live = evidence[at];
    return live === undefined
      ? { kind: "unknown", why: "it cannot be inspected" }
      : compareImported(factsOf(each), live);
  });
}

function factsOf({ pid, command, wrapperRoot, startTime }: ImportEntry): ImportedFacts {
  return { pid, commandHash: commandHash(commandWords(command)), wrapperRoot, startTime: startTime ?? null };
}

/** An unterminated quote makes the text one word, which matches no process. */
function commandWords(command: string): readonly string[] {
  return splitShellWords(command) ?? [command];
}

function toVerification(sight: ImportedEvidence | undefined): {
  readonly verified: boolean;
  readonly why: string;
} {
  switch (sight?.kind) {
    case "matches":
      return {
        verified: true,
        why: "process, wrapper root and command match; a gateway or `runs cleanup` will end it",
      };
    case "gone":
      return { verified: false, why: "the process is gone" };
    case "differs":
    case "unknown":
      return { verified: false, why: `${sight.why}; it will be left alone` };
    case undefined:
      return { verified: false, why: "it cannot be inspected" };
  }
}

export async function recordEntries(entries: readonly ImportEntry[]): Promise<readonly string[]> {
  const { home, storePath } = await openStateDirectory(resolveHome());
  const place = { ...(await readMachineIdentity(home)), stateId: await stateIdOf(home) };
  await using store = await openStore(storePath, "import");
  const ids: string[] = [];
  const known = await knownImports(store, place.hostId);
  for (const each of entries) {
    const before = known.get(keyOf(factsOf(each)));
    if (before !== undefined) ids.push(before);
    else {
      const run = toNewRun(each, place);
      // No supervisor holds this lease: the next reconciliation may take the run.
      await store.insertRun(run, 0);
      known.set(keyOf(factsOf(each)), run.runId);
      ids.push(run.runId);
    }
  }
  return ids;
}

/** Idempotent: a second import of a file changes nothing. */
async function knownImports(store: Store, hostId: string): Promise<Map<string, string>> {
  const open = await store.listRuns({ states: OPEN_RUN_STATES, hostIds: [hostId] });
  return new Map(
    open.flatMap(({ runId, imported }) => (imported === null ? [] : [[keyOf(imported), runId] as const])),
  );
}

function keyOf(facts: ImportedFacts): string {
  return JSON.stringify([facts.pid, facts.commandHash, facts.wrapperRoot, facts.startTime]);
}

function displayedCommand(command: string): string {
  return displayCommand(commandWords(command));
}

/** Fields that are kept from the file of the other tool. */
function toNewRun(
  each: ImportEntry,
  place: Pick<NewRun, "hostId" | "bootId" | "pidNamespace" | "timeNamespace" | "stateId">,
): NewRun {
  return {
    runId: newRunId(),
    leaseId: "",
    sessionKey: each.sessionKey ?? null,
    sessionId: null,
    backendId: null,
    agentId: each.agentId ?? null,
    labels: each.labels,
    kind: "task",
    io: "pipe",
    command: displayedCommand(each.command),
    commandHash: commandHash(commandWords(each.command)),
    cwd: "",
    ...place,
    anchorPath: each.wrapperRoot,
    originInstanceId: "imported",
    ownerInstanceId: NEVER_OWNED,
    leaseEpoch: 1,
    deadlines: NO_DEADLINES,
    policy: defaultPolicy({ onEscape: "sweep", onOrphan: "terminate" }),
    limits: NO_LIMITS,
    createdAt: Date.now(),
    service: null,
    imported: factsOf(each),
  };
}
