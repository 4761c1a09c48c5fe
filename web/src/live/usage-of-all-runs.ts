import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../api/client.js";
import { defaults } from "../defaults.js";
import { connection } from "./connection.js";
import { openRuns } from "./runs.js";
import { measure, type RunUsage } from "./run-usage.js";
import { viewerIsOperator } from "./viewer.js";
import { sleep, untilVisible, whileVisible } from "./page-visibility.js";

/** Processes, CPU and memory of open runs by their ids. Empty in the view of a session. */
export const allUsage = signal<ReadonlyMap<string, RunUsage>>(new Map());

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
    if (connection.peek() !== "lost" && openRuns.peek().length > 0) await read(gone).catch(() => undefined);
    const took = performance.now() - began;
    const pauseMs = Math.min(
      Math.max(defaults.usageShortestMs, took / defaults.usageTimeShare),
      defaults.usageLongestMs,
    );
    await sleep(count === 0 ? defaults.usageFirstMs : pauseMs, gone);
  }
}

async function read(gone: AbortSignal): Promise<void> {
  using visible = whileVisible(gone);
  const { processes } = await request("viewRuns", {
    query: { processes: "1", brief: "1", limit: 1_000 },
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
