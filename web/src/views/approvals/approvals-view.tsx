import { request } from "../../api/client.js";
import type { Approval, Permission } from "../../api/types.js";
import { EmptyState } from "../../components/empty-state.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { Table } from "../../components/table.js";
import { TimeUntil } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { DecidedList } from "./decided-list.js";
import { SessionLink } from "./session-link.js";

interface Questions {
  readonly approvals: readonly Approval[];
  readonly permissions: readonly Permission[];
  readonly names: ReadonlyMap<string, string>;
}

async function readQuestions(signal: AbortSignal): Promise<Questions> {
  const [{ approvals }, { permissions }, { sessions }] = await Promise.all([
    request("listApprovals", { signal }),
    request("acpPermissions", { signal }),
    request("listSessions", { query: { all: "1", limit: 1_000 }, signal }),
  ]);
  return { approvals, permissions, names: new Map(sessions.map(({ id, key }) => [id, key])) };
}

/** Commands of sessions and permission requests of agents that wait for the operator. Each is answered on its own page. */
export function ApprovalsView() {
  const questions = useResource("approvals", readQuestions, { everyMs: defaults.approvalsPollMs });
  return (
    <>
      <h1 class="title">Approvals</h1>
      <ResourceView resource={questions}>
        {({ approvals, permissions, names }) => (
          <>
            {approvals.length + permissions.length === 0 && (
              <EmptyState title="Nothing waits for an answer">
                A command that an exec rule asks about, or a permission request of an agent, appears here.
              </EmptyState>
            )}
            {approvals.length > 0 && (
              <Section title="Commands of sessions" count={approvals.length}>
                <CommandTable approvals={approvals} names={names} />
              </Section>
            )}
            {permissions.length > 0 && (
              <Section title="Permission requests of agents" count={permissions.length}>
                <PermissionTable permissions={permissions} />
              </Section>
            )}
            <DecidedList names={names} />
          </>
        )}
      </ResourceView>
    </>
  );
}

function CommandTable({ approvals, names }: Pick<Questions, "approvals" | "names">) {
  return (
    <Table
      caption="Commands that wait for an approval"
      rows={approvals}
      rowKey={({ id }) => id}
      columns={[
        {
          title: "Command",
          wide: true,
          cell: ({ id, command }) => (
            <a class="mono" href={`/approvals/${id}`} title={command}>
              <bdi>{command}</bdi>
            </a>
          ),
        },
        {
          title: "Session",
          cell: ({ sessionId }) => <SessionLink id={sessionId} name={names.get(sessionId) ?? sessionId} />,
        },
        { title: "Expires", numeric: true, cell: ({ expiresAt }) => <TimeUntil at={expiresAt} /> },
      ]}
    />
  );
}

function PermissionTable({ permissions }: Pick<Questions, "permissions">) {
  return (
    <Table
      caption="Permission requests that wait for an answer"
      rows={permissions}
      rowKey={({ id }) => id}
      columns={[
        { title: "Kind", cell: ({ kind }) => <bdi class="cut">{kind ?? "tool"}</bdi> },
        {
          title: "Request",
          wide: true,
          cell: ({ id, title, toolCallId }) => (
            <a href={`/approvals/${id}`} title={title ?? toolCallId}>
              <bdi>{title ?? toolCallId}</bdi>
            </a>
          ),
        },
        {
          title: "Session",
          cell: ({ sessionId, sessionKey }) => <SessionLink id={sessionId} name={sessionKey} />,
        },
        { title: "Expires", numeric: true, cell: ({ expiresAt }) => <TimeUntil at={expiresAt} /> },
      ]}
    />
  );
}
