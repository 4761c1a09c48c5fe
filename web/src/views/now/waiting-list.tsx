import { request } from "../../api/client.js";
import type { Approval, Permission } from "../../api/types.js";
import { Badge } from "../../components/badge.js";
import { ErrorBox } from "../../components/error-box.js";
import { Section } from "../../components/section.js";
import { Table } from "../../components/table.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { viewerIsOperator } from "../../live/viewer.js";

/** A question to the operator: an approval of a command, or a permission request of an agent. */
interface Question {
  readonly id: string;
  readonly what: string;
  readonly kind: "command" | "permission";
  readonly askedAt: number;
  readonly href: string;
}

export function WaitingList() {
  const {
    value: questions = [],
    error,
    reload,
  } = useResource("waiting", readQuestions, { everyMs: defaults.waitingPollMs });
  if (error !== null && questions.length === 0) return <ErrorBox error={error} retry={reload} />;
  if (questions.length === 0) return null;
  return (
    <Section title="Waiting for an answer" count={questions.length}>
      <Table
        caption="Questions that wait for an answer"
        rows={questions}
        rowKey={({ id }) => id}
        columns={[
          { title: "Kind", cell: ({ kind }) => <Badge tone="wait">{kind}</Badge> },
          {
            title: "Question",
            wide: true,
            cell: ({ href, what }) => (
              <a href={href} title={what}>
                <bdi>{what}</bdi>
              </a>
            ),
          },
          { title: "Asked", numeric: true, cell: ({ askedAt }) => <TimeAgo at={askedAt} /> },
        ]}
      />
    </Section>
  );
}

async function readQuestions(signal: AbortSignal): Promise<readonly Question[]> {
  // Only the operator answers approvals; a session sees the permission requests of its agents.
  const [{ approvals }, { permissions }] = await Promise.all([
    viewerIsOperator() ? request("listApprovals", { signal }) : { approvals: [] },
    request("acpPermissions", { signal }),
  ]);
  return [...approvals.map(fromApproval), ...permissions.map(fromPermission)].toSorted(
    (one, other) => one.askedAt - other.askedAt,
  );
}

function fromApproval({ id, command, askedAt }: Approval): Question {
  return { id, what: command, kind: "command", askedAt, href: `/approvals/${id}` };
}

function fromPermission({ id, sessionId, kind, title, askedAt }: Permission): Question {
  const what = title ?? kind ?? "an action";
  return {
    id,
    what,
    kind: "permission",
    askedAt,
    href: viewerIsOperator() ? `/approvals/${id}` : `/sessions/${sessionId}`,
  };
}
