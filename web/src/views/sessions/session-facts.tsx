import type { ResponseOf } from "../../../../src/api/contract.js";
import { FieldList } from "../../components/field-list.js";
import { Section } from "../../components/section.js";
import { TimeAgo } from "../../components/time-ago.js";

type Status = ResponseOf<"sessionStatus">;

export function SessionFacts({ status: { session, messages } }: { readonly status: Status }) {
  const { id, agentId, parentSessionKey, visibility, createdAt, closedAt, closedBy, closeReason } = session;
  const parentId = session.lineage.at(-1);
  return (
    <FieldList
      fields={[
        ["Session", <code key="id">{id}</code>],
        ["Agent", agentId === null ? null : <bdi key="agent">{agentId}</bdi>],
        [
          "Parent",
          parentSessionKey === null ? null : parentId === undefined ? (
            <bdi key="parent">{parentSessionKey}</bdi>
          ) : (
            <a key="parent" href={`/sessions/${encodeURIComponent(parentSessionKey)}`}>
              <bdi>{parentSessionKey}</bdi>
            </a>
          ),
        ],
        ["Sees", VISIBILITY[visibility]],
        ["Opened", <TimeAgo key="opened" at={createdAt} />],
        [
          "Closed",
          closedAt === null ? null : (
            <span key="closed">
              <TimeAgo at={closedAt} />
              {closedBy !== null && <> by {closedBy}</>}
              {closeReason !== null && <bdi>: {closeReason}</bdi>}
            </span>
          ),
        ],
        ["Messages", messages.total === 0 ? null : `${messages.total}, ${messages.pending} pending`],
        [
          "Tasks",
          <a key="tasks" href={`/tasks?session=${id}`}>
            tasks of this session
          </a>,
        ],
      ]}
    />
  );
}

const VISIBILITY: Readonly<Record<Status["session"]["visibility"], string>> = {
  self: "only itself",
  tree: "the sessions below it",
  agent: "all sessions of its agent",
  all: "all sessions",
};

export function SessionRuns({ runs }: Pick<Status, "runs">) {
  if (runs.length === 0) return null;
  return (
    <Section title="Open runs" count={runs.length}>
      <ul class="links">
        {runs.map(({ runId, command, createdAt }) => (
          <li key={runId}>
            <a class="mono" href={`/runs/${runId}`} title={command}>
              <bdi>{command}</bdi>
            </a>
            <span class="quiet">
              <TimeAgo at={createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
