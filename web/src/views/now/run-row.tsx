import type { Run } from "../../api/types.js";
import { Sparkline } from "../../charts/sparkline.js";
import { formatBytes } from "../../components/bytes.js";
import { formatPercent } from "../../components/process-row.js";
import { RunBadge } from "../../components/run-badge.js";
import { Elapsed, TimeAgo } from "../../components/time-ago.js";
import { visibleText } from "../../components/visible-text.js";
import { allUsage } from "../../live/usage-of-all-runs.js";
import { isOpen } from "../../live/runs.js";
import { type RunUsage, SAMPLES } from "../../live/run-usage.js";
import { areProcessesShown, toggleProcesses } from "./shown-processes.js";

/** A run in a list: its state, command, owner, usage and start. */
export function RunRow({ run }: { readonly run: Run }) {
  const name = run.labels["name"];
  const whose = run.agentId ?? run.sessionKey;
  const port = run.service?.port ?? null;
  const usage = isOpen(run) ? allUsage.value.get(run.runId) : undefined;
  return (
    <div class="list-row run-row">
      <RunBadge run={run} />
      <a class="run-command" href={`/runs/${run.runId}`} title={run.command}>
        {name !== undefined && (
          <b>
            <bdi>{visibleText(name)}</bdi>
          </b>
        )}{" "}
        <bdi>{run.command}</bdi>
      </a>
      <span class="run-facts">
        {whose !== null && (
          <bdi class="run-whose" title={whose}>
            {whose}
          </bdi>
        )}
        {port !== null && <span class="number">:{port}</span>}
        {isOpen(run) && run.lastOutputAt !== null && (
          <span class="run-output" title={`Last output: ${new Date(run.lastOutputAt).toLocaleString()}`}>
            output <Elapsed from={run.lastOutputAt} to={null} /> ago
          </span>
        )}
        {usage !== undefined && <RunUsageFacts run={run} usage={usage} />}
        <span class="run-time">
          {isOpen(run) ? (
            <Elapsed from={run.startedAt ?? run.createdAt} to={null} />
          ) : (
            <TimeAgo at={run.endedAt ?? run.updatedAt} />
          )}
        </span>
      </span>
    </div>
  );
}

function RunUsageFacts({ run, usage }: { readonly run: Run; readonly usage: RunUsage }) {
  const { samples, processes } = usage;
  const last = samples.at(-1);
  const cpu = formatPercent(last?.cpuPercent ?? null);
  const rssKb = last?.rssKb ?? processes.reduce((sum, each) => sum + each.rssKb, 0);
  const shown = areProcessesShown(run.runId);
  return (
    <>
      <button
        type="button"
        class="plain run-processes"
        aria-expanded={shown}
        title={shown ? "Hide its processes" : "Show its processes"}
        onClick={() => toggleProcesses(run.runId)}
      >
        {shown ? "▾" : "▸"} {processes.length} <span class="visually-hidden">processes</span>
      </button>
      <span class="run-chart" title={`CPU ${cpu}`}>
        <Sparkline
          label={`CPU ${cpu}`}
          values={samples.map(({ cpuPercent }) => cpuPercent)}
          max={100}
          capacity={SAMPLES}
        />
      </span>
      <span class="run-cpu">{cpu}</span>
      <span class="run-chart" title={`Memory ${formatBytes(rssKb * 1024)}`}>
        <Sparkline
          label={`Memory ${formatBytes(rssKb * 1024)}`}
          values={samples.map((each) => each.rssKb)}
          max={Math.max(...samples.map((each) => each.rssKb)) * 1.2}
          capacity={SAMPLES}
        />
      </span>
      <span class="run-memory">{formatBytes(rssKb * 1024)}</span>
    </>
  );
}
