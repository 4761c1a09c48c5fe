import type { Run } from "../../api/types.js";
import { formatBytes } from "../../components/bytes.js";
import { formatDuration } from "../../components/duration.js";
import { FieldList } from "../../components/field-list.js";
import { Section } from "../../components/section.js";
import { Elapsed, TimeAgo } from "../../components/time-ago.js";
import { visibleText } from "../../components/visible-text.js";
import { tierSentences } from "./tier-text.js";

/** The record of a run: its place, owner, start and limits. */
export function RunFacts({ run }: { readonly run: Run }) {
  const labels = Object.entries(run.labels).filter(([key]) => key !== "name");
  return (
    <Section title="Run">
      <FieldList
        fields={[
          ["Id", <code key="id">{run.runId}</code>],
          ["Directory", run.cwd === "" ? null : <code key="cwd">{run.cwd}</code>],
          [
            "Session",
            run.sessionKey === null ? null : (
              <a key="session" href={`/sessions/${encodeURIComponent(run.sessionId ?? run.sessionKey)}`}>
                <bdi>{visibleText(run.sessionKey)}</bdi>
              </a>
            ),
          ],
          ["Agent", run.agentId],
          ["Kind", `${run.kind}, ${run.io === "pty" ? "with a terminal" : "without a terminal"}`],
          [
            "Labels",
            labels.length === 0
              ? null
              : visibleText(labels.map(([key, value]) => `${key}=${value}`).join(", ")),
          ],
          ["Started", <TimeAgo key="start" at={run.startedAt ?? run.createdAt} />],
          ["Duration", <Elapsed key="time" from={run.startedAt ?? run.createdAt} to={run.endedAt} />],
          ["Last output", run.lastOutputAt === null ? null : <TimeAgo key="output" at={run.lastOutputAt} />],
          ["Port", portText(run)],
          ["Limits", limitsText(run)],
        ]}
      />
    </Section>
  );
}

/** The evidence that the processes belong to the run, and its strength. */
export function Evidence({ run }: { readonly run: Run }) {
  const { tier, boundary, root, anchor, ownerInstanceId, leaseEpoch } = run;
  return (
    <Section title="Ownership">
      <FieldList
        fields={[
          [
            "Boundary",
            tier === null ? (
              "not known"
            ) : (
              <div key="tier">
                <code>{tier}</code>
                <ul class="sentences">
                  {tierSentences(tier).map((sentence) => (
                    <li key={sentence}>{sentence}</li>
                  ))}
                </ul>
              </div>
            ),
          ],
          ["Not stronger", boundary?.note ?? null],
          ["Owner", `${ownerInstanceId === "" ? "none" : ownerInstanceId}, epoch ${leaseEpoch}`],
          ["Anchor", identityText(anchor)],
          ["Command", identityText(root)],
          ["Cgroup", boundary?.cgroup ?? null],
        ]}
      />
    </Section>
  );
}

function identityText(identity: Run["root"]): string | null {
  if (identity === null) return null;
  const { pid, startTime, uniqueId } = identity;
  return `process ${pid}, start ${startTime}${uniqueId === null ? "" : `, unique id ${uniqueId}`}`;
}

function portText({ service }: Run): string | null {
  if (service === null || service.port === null) return null;
  return `${service.port}${service.readyAt === null ? ", not ready yet" : ""}`;
}

function limitsText({ limits: { memoryBytes, pids, cpus }, deadlines }: Run): string {
  const all = [
    memoryBytes === null ? null : `${formatBytes(memoryBytes)} of memory`,
    pids === null ? null : `${pids} processes and threads`,
    cpus === null ? null : `${cpus} CPUs`,
    deadlines.overallMs === null ? null : `${formatDuration(deadlines.overallMs)} in all`,
    deadlines.noOutputMs === null ? null : `${formatDuration(deadlines.noOutputMs)} without output`,
  ].filter((each) => each !== null);
  return all.length === 0 ? "none" : all.join(", ");
}
