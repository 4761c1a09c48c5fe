import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../api/client.js";
import { connection } from "./connection.js";
import { measure, type RunUsage } from "./run-usage.js";
import { viewerIsOperator } from "./viewer.js";
import { sleep, untilVisible, whileVisible } from "./page-visibility.js";

/** Processes, CPU and memory of open runs by their ids. Empty in the view of a session. */
export const allUsage = signal<ReadonlyMap<string, RunUsage>>(new Map());

/** The first two readings give the first values of CPU. */
const FIRST_PAUSE_MS = 1_000;
const SHORTEST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 20_000;
/** A reading may take this part of the time, so that an open page costs the gateway little. */
const TIME_SHARE = 1 / 20;

/** Reads the processes of all open runs as long as the caller is shown. */
export function useAllUsage(): void {
  useEffect(() => {
    if (!viewerIsOperator()) return;
    const gone = new AbortController();
    void follow(gone.signal);
    return () => gone.abort();
  }, []);
}

async function follow(gone: AbortSignal): Promise<void> {
  for (let count = 0; !gone.aborted; count++) {
    await untilVisible();
    const began = performance.now();
    if (connection.peek() !== "lost") await read(gone).catch(() => undefined);
    const took = performance.now() - began;
    const pauseMs = Math.min(Math.max(SHORTEST_PAUSE_MS, took / TIME_SHARE), LONGEST_PAUSE_MS);
    await sleep(count === 0 ? FIRST_PAUSE_MS : pauseMs, gone);
  }
}

async function read(gone: AbortSignal): Promise<void> {
  using visible = whileVisible(gone);
  const { processes } = await request("viewRuns", {
    query: { processes: "1", limit: 1_000 },
    signal: visible.signal,
  });
  const at = performance.now();
  const before = allUsage.peek();
  allUsage.value = new Map(
    Object.entries(processes ?? {}).map(([runId, found]) => {
      const flat = found.processes.map(({ identity, ...rest }) => ({ ...identity, ...rest }));
      return [runId, measure(before.get(runId), flat, at)];
    }),
  );
}
