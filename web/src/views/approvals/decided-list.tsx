import { request } from "../../api/client.js";
import { ErrorBox } from "../../components/error-box.js";
import { type Decision, VerdictBadge } from "../../components/question/verdict.js";
import { Section } from "../../components/section.js";
import { Table } from "../../components/table.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { SessionLink } from "./session-link.js";

/** Of each kind, the newest questions. */
const SHOWN = 50;

interface DecidedQuestion {
  readonly id: string;
  readonly what: string;
  readonly sessionId: string;
  /** Null: the question does not have it. */
  readonly sessionKey: string | null;
  readonly decision: Decision;
}

/** The questions that were answered or have expired, the newest decision first. `names`: of sessions, by id. */
export function DecidedList({ names }: { readonly names: ReadonlyMap<string, string> }) {
  const decided = useResource("decided", readDecided, { everyMs: defaults.decidedPollMs, runIds: [] });
  const rows = decided.value ?? [];
  if (rows.length === 0)
    return decided.error === null ? null : <ErrorBox error={decided.error} retry={decided.reload} />;
  return (
    <Section title="Decided" count={rows.length}>
      <Table
        caption="Questions that were decided"
        rows={rows}
        rowKey={({ id }) => id}
        columns={[
          { title: "Decision", cell: ({ decision }) => <VerdictBadge decision={decision} /> },
          {
            title: "Question",
            wide: true,
            cell: ({ id, what }) => (
              <a class="mono" href={`/approvals/${id}`} title={what}>
                <bdi>{what}</bdi>
              </a>
            ),
          },
          {
            title: "Session",
            cell: ({ sessionId, sessionKey }) => (
              <SessionLink id={sessionId} name={sessionKey ?? names.get(sessionId) ?? sessionId} />
            ),
          },
          {
            title: "By",
            cell: ({ decision: { actor } }) => (
              <bdi class="cut" title={actor}>
                {actor}
              </bdi>
            ),
          },
          { title: "When", numeric: true, cell: ({ decision }) => <TimeAgo at={decision.at} /> },
        ]}
      />
    </Section>
  );
}

async function readDecided(signal: AbortSignal): Promise<readonly DecidedQuestion[]> {
  const query = { decided: "1", limit: SHOWN } as const;
  const [{ approvals }, { permissions }] = await Promise.all([
    request("listApprovals", { query, signal }),
    request("acpPermissions", { query, signal }),
  ]);
  const all = [
    ...approvals.map((each) => ({ ...each, what: each.command, sessionKey: null })),
    ...permissions.map((each) => ({ ...each, what: each.title ?? each.kind ?? "an action" })),
  ];
  return all
    .flatMap(({ decision, ...each }) => (decision === null ? [] : [{ ...each, decision }]))
    .toSorted((one, other) => other.decision.at - one.decision.at)
    .slice(0, SHOWN);
}
