import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { request } from "../../api/client.js";
import type { Run, RunProcesses } from "../../api/types.js";
import { Sparkline } from "../../charts/sparkline.js";
import { formatBytes } from "../../components/bytes.js";
import { formatPercent, ProcessRow } from "../../components/process-row.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { flattenTree, measure, type RunUsage, SAMPLES } from "../../live/run-usage.js";

/** More are counted, not listed: the page stays usable when a run forks without end. */
const MAX_ROWS = 200;

/** The live processes of an open run, and its usage since the page was opened. */
export function Processes({ run }: { readonly run: Run }) {
  const read = useResource(
    `processes ${run.runId}`,
    (signal) => request("runProcesses", { params: { runId: run.runId }, signal }),
    { everyMs: defaults.processesPollMs, runIds: [run.runId] },
  );
  const usage = useMeasured(read.value);
  const rows = flattenTree(usage?.processes ?? []);
  return (
    <Section title="Processes" count={rows.length}>
      <ResourceView resource={read}>
        {({ claims, unknown }) => (
          <div class="panel">
            {usage !== undefined && <UsageCharts usage={usage} run={run} />}
            <div class="process-tree" role="list" aria-label="Process tree">
              {rows.slice(0, MAX_ROWS).map((row) => (
                <div role="listitem" key={row.process.pid}>
                  <ProcessRow row={row} />
                </div>
              ))}
            </div>
            {rows.length > MAX_ROWS && <p class="quiet">and {rows.length - MAX_ROWS} more</p>}
            {rows.length === 0 && unknown === null && <p class="quiet">No process of this run is alive.</p>}
            {claims.map(({ pid, command }) => (
              <p key={pid} class="quiet">
                {pid} <bdi>{command}</bdi> has the marker of this run, and nothing else connects it. It is
                never signalled.
              </p>
            ))}
            {unknown !== null && <p class="note note-wait">There may be more processes: {unknown}</p>}
          </div>
        )}
      </ResourceView>
    </Section>
  );
}

function useMeasured(read: RunProcesses | undefined): RunUsage | undefined {
  const usage = useSignal<RunUsage | undefined>(undefined);
  const last = useRef<RunProcesses | undefined>(undefined);
  useEffect(() => {
    if (read === undefined || read === last.current) return;
    const before = last.current?.runId === read.runId ? usage.peek() : undefined;
    last.current = read;
    usage.value = measure(before, read.processes, performance.now());
  }, [read]);
  return usage.value;
}

function UsageCharts({ usage: { samples }, run }: { readonly usage: RunUsage; readonly run: Run }) {
  const last = samples.at(-1);
  if (last === undefined) return <p class="quiet">Measuring…</p>;
  const { memoryBytes, cpus } = run.limits;
  const memory = samples.map(({ rssKb }) => rssKb * 1024);
  const cpu = samples.map(({ cpuPercent }) => cpuPercent);
  return (
    <div class="usage-charts">
      <figure>
        <figcaption>
          CPU <b class="number">{formatPercent(last.cpuPercent)}</b>
          {cpus !== null && <span class="quiet"> of {formatPercent(cpus * 100)}</span>}
        </figcaption>
        <Sparkline
          label={`CPU since the page was opened, now ${formatPercent(last.cpuPercent)}`}
          values={cpu}
          max={cpus === null ? 100 : cpus * 100}
          capacity={SAMPLES}
        />
      </figure>
      <figure>
        <figcaption>
          Memory <b class="number">{formatBytes(last.rssKb * 1024)}</b>
          {memoryBytes !== null && <span class="quiet"> of {formatBytes(memoryBytes)}</span>}
        </figcaption>
        <Sparkline
          label={`Memory since the page was opened, now ${formatBytes(last.rssKb * 1024)}`}
          values={memory}
          max={memoryBytes ?? Math.max(...memory) * 1.2}
          capacity={SAMPLES}
        />
      </figure>
    </div>
  );
}
