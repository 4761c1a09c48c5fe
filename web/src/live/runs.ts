import { computed, signal } from "@preact/signals";
import { ApiError, request } from "../api/client.js";
import type { Run } from "../api/types.js";
import { defaults } from "../defaults.js";
import { connection } from "./connection.js";
import { listenForEvents } from "./events.js";

/** All open runs, and the newest ended ones. */
export const runs = signal<ReadonlyMap<string, Run>>(new Map());
/** False: the first answer has not arrived. */
export const runsLoaded = signal(false);
export const runsError = signal<unknown>(null);

export const openRuns = computed(() => newestFirst([...runs.value.values()].filter(isOpen)));
export const endedRuns = computed(() => newestFirst([...runs.value.values()].filter((run) => !isOpen(run))));

/** Ended runs that are read at first. */
const ENDED = 100;
const PAGE = 500;
/** Beyond so many runs, one read of all is cheaper. */
const READ_EACH = 20;

const changed = new Set<string>();
/** When runs have printed since the last change of `runs`. */
const printed = new Map<string, number>();
let printTimer: ReturnType<typeof setTimeout> | null = null;
let timer: ReturnType<typeof setTimeout> | null = null;

export function isOpen({ state }: Pick<Run, "state">): boolean {
  return state !== "exited";
}

/** Reads all runs, and keeps them current. */
export function followRuns(): void {
  listenForEvents({
    onEvent: ({ runId, type, at }) => {
      if (runId === "") return;
      if (type === "output" && runs.peek().has(runId)) {
        printed.set(runId, at);
        printTimer ??= setTimeout(showPrinted, defaults.outputCollectMs);
        return;
      }
      changed.add(runId);
      readSoon();
    },
    onGap: () => void readAll(),
  });
  connection.subscribe((state) => {
    if (state !== "live" && state !== "restored") return;
    if (runsError.peek() !== null) void readAll();
    else if (changed.size > 0) readSoon();
  });
  setInterval(() => {
    if (!document.hidden && connection.peek() === "live") void dropRemoved();
  }, defaults.removedPollMs);
  void readAll();
}

/** Many runs that print cause few changes of the list. */
function showPrinted(): void {
  printTimer = null;
  const found = [...printed].flatMap(([runId, lastOutputAt]) => {
    const run = runs.peek().get(runId);
    return run === undefined ? [] : [{ ...run, lastOutputAt }];
  });
  printed.clear();
  put(found);
}

function readSoon(): void {
  timer ??= setTimeout(() => void readChanged(), defaults.runsCollectMs);
}

export async function readAll(): Promise<void> {
  try {
    const found: Run[] = [];
    for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
      const page: { readonly runs: Run[]; readonly next: string | null } = await request("listRuns", {
        query: { limit: PAGE, ...(cursor === null ? {} : { cursor }) },
      });
      found.push(...page.runs);
      cursor = page.next;
    }
    const newest = await request("listRuns", { query: { all: "1", limit: ENDED } });
    const openNow = new Set(found.map(({ runId }) => runId));
    const ended = withoutRemoved(newest.runs).filter((run) => !isOpen(run) && !openNow.has(run.runId));
    runs.value = new Map([...ended, ...newest.runs, ...found].map((run) => [run.runId, run]));
    runsError.value = null;
  } catch (error) {
    runsError.value = error;
  }
  runsLoaded.value = true;
}

async function dropRemoved(): Promise<void> {
  const newest = await request("listRuns", { query: { all: "1", limit: ENDED } }).catch(() => null);
  if (newest === null || newest.storeAway !== null) return;
  const left = withoutRemoved(newest.runs);
  if (left.length < runs.peek().size) runs.value = new Map(left.map((run) => [run.runId, run]));
}

/** Ended runs that are known and as new as the listed ones must be among them. */
function withoutRemoved(newest: readonly Run[]): readonly Run[] {
  const oldest = newest.length < ENDED ? 0 : (newest.at(-1)?.createdAt ?? 0);
  const listed = new Set(newest.map(({ runId }) => runId));
  return [...runs.peek().values()].filter(
    (run) => isOpen(run) || run.createdAt <= oldest || listed.has(run.runId),
  );
}

async function readChanged(): Promise<void> {
  timer = null;
  const ids = [...changed];
  changed.clear();
  if (ids.length > READ_EACH) return readAll();
  const read = await Promise.all(ids.map((runId) => readRun(runId)));
  put(read.filter((run) => run !== null));
}

/** Null: the run was forgotten, or may not be seen. */
async function readRun(runId: string): Promise<Run | null> {
  try {
    return await request("getRun", { params: { runId } });
  } catch (error) {
    // An unreachable gateway: the run is read again when the connection is back.
    if (!(error instanceof ApiError)) changed.add(runId);
    return null;
  }
}

function put(read: readonly Run[]): void {
  if (read.length === 0) return;
  const next = new Map(runs.peek());
  for (const run of read)
    if (run.hiddenAt === null) next.set(run.runId, run);
    else next.delete(run.runId);
  runs.value = next;
}

function newestFirst(list: readonly Run[]): readonly Run[] {
  return list.toSorted((one, other) => other.createdAt - one.createdAt);
}
