import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import { HistoryChart, type Point } from "../../charts/history-chart.js";
import { formatBytes } from "../../components/bytes.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { Table } from "../../components/table.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { query, setQuery } from "../../router/location.js";

const HOUR_MS = 3_600_000;

type Health = ResponseOf<"health">;
type Sample = Health["samples"][number];

const RANGES = [
  { value: "1h", title: "Last hour", ms: HOUR_MS },
  { value: "6h", title: "Last 6 hours", ms: 6 * HOUR_MS },
  { value: "24h", title: "Last 24 hours", ms: 24 * HOUR_MS },
] as const;

/** The measurements of the gateway since its start. */
export function GatewayHistory() {
  const health = useResource("health", (signal) => request("health", { signal }), {
    everyMs: defaults.historyPollMs,
  });
  return (
    <ResourceView resource={health}>
      {(value) => (
        <>
          <Charts samples={value.samples} />
          <CleanedUp health={value} />
          <Reconciled health={value} />
        </>
      )}
    </ResourceView>
  );
}

function Charts({ samples }: { readonly samples: readonly Sample[] }) {
  const given = query.value.get("range");
  const range = RANGES.find(({ value }) => value === given) ?? RANGES[0];
  const newest = samples.at(-1)?.at ?? 0;
  const shown = samples.filter(({ at }) => at >= newest - range.ms);
  const value = (read: (sample: Sample) => number): Point[] =>
    shown.map((sample) => ({ at: sample.at, value: read(sample) }));
  return (
    <Section title="This gateway">
      <div class="filters">
        <select
          aria-label="Time range"
          value={range.value}
          onChange={(event) => setQuery("range", event.currentTarget.value)}
        >
          {RANGES.map((each) => (
            <option key={each.value} value={each.value}>
              {each.title}
            </option>
          ))}
        </select>
      </div>
      <div class="charts">
        <HistoryChart title="Runs held" points={value(({ runs }) => runs)} format={whole} />
        <HistoryChart
          title="Starts per minute"
          points={perMinute(shown, ({ spawned }) => spawned)}
          format={tenths}
        />
        <HistoryChart
          title="Ends per minute"
          points={perMinute(shown, ({ ended }) => ended)}
          format={tenths}
        />
        <HistoryChart title="Processes cleaned up" points={value(({ cleaned }) => cleaned)} format={whole} />
        <HistoryChart
          title="Processor"
          points={perMinute(shown, ({ cpuMs }) => cpuMs).map(({ at, value: ms }) => ({
            at,
            value: ms / 600,
          }))}
          format={(percent) => `${tenths(percent)} %`}
          atLeast={5}
        />
        <HistoryChart title="Memory" points={value(({ memoryBytes }) => memoryBytes)} format={formatBytes} />
        <HistoryChart title="Writes that wait" points={value(({ backlog }) => backlog)} format={whole} />
        <HistoryChart
          title="Since the lease renewal"
          points={value(({ renewalMs }) => renewalMs / 1_000)}
          format={(seconds) => `${tenths(seconds)} s`}
          atLeast={10}
        />
      </div>
    </Section>
  );
}

/** Over a shorter time, a rate says nothing: the newest sample may be a second old. */
const MIN_INTERVAL_MS = 30_000;

/** The growth of a counter between two samples, per minute. */
function perMinute(samples: readonly Sample[], read: (sample: Sample) => number): Point[] {
  return samples.flatMap((sample, at) => {
    const before = samples
      .slice(Math.max(0, at - 2), at)
      .findLast((each) => sample.at - each.at >= MIN_INTERVAL_MS);
    if (before === undefined) return [];
    return [{ at: sample.at, value: ((read(sample) - read(before)) / (sample.at - before.at)) * 60_000 }];
  });
}

function whole(value: number): string {
  return Math.round(value).toLocaleString();
}

function tenths(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 1 });
}

const CLASSES: readonly (readonly [keyof Health["cleaned"], string])[] = [
  ["pid", "one by one, each by its identity"],
  ["cgroup", "at once, with the cgroup of the run"],
  ["pgid", "at once, with a process group"],
  ["job", "at once, with the Job Object of the run"],
];

/** Processes that would have been left behind. */
function CleanedUp({ health: { cleaned, samples } }: { readonly health: Health }) {
  const total = Object.values(cleaned).reduce((sum, count) => sum + count, 0);
  const since = samples[0]?.at;
  return (
    <Section title="Leaks prevented" count={total}>
      <Table
        caption="Processes that were ended with their run, by how they were ended"
        rows={CLASSES.filter(([mode]) => cleaned[mode] > 0 || mode === "pid" || mode === "cgroup")}
        rowKey={([mode]) => mode}
        columns={[
          { title: "Ended", wide: true, cell: ([, words]) => words },
          { title: "Processes", numeric: true, cell: ([mode]) => cleaned[mode].toLocaleString() },
        ]}
      />
      <p class="hint">
        Processes that outlived the command of their run and were ended with it
        {since !== undefined && (
          <>
            , since <TimeAgo at={since} />
          </>
        )}
        .
      </p>
    </Section>
  );
}

function Reconciled({ health: { reconciled } }: { readonly health: Health }) {
  return (
    <Section title="Reconcile decisions" count={reconciled.length}>
      {reconciled.length === 0 ? (
        <p class="quiet">No run was found without its owner since the gateway started.</p>
      ) : (
        <Table
          caption="Decisions about runs that were found without their owner"
          rows={reconciled}
          rowKey={({ runId, at, action }) => `${runId} ${at} ${action}`}
          columns={[
            { title: "Decision", cell: ({ action }) => action },
            {
              title: "Run",
              cell: ({ runId }) => (
                <a class="cut" href={`/runs/${runId}`}>
                  {runId}
                </a>
              ),
            },
            { title: "Reason", wide: true, cell: ({ why }) => <bdi title={why}>{why}</bdi> },
            { title: "When", numeric: true, cell: ({ at }) => <TimeAgo at={at} /> },
          ]}
        />
      )}
    </Section>
  );
}
