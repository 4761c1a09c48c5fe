import { request } from "../../api/client.js";
import type { AgentSession, Session } from "../../api/types.js";
import { EmptyState } from "../../components/empty-state.js";
import { ResourceView } from "../../components/resource-view.js";
import { TimeAgo } from "../../components/time-ago.js";
import { NARROW_ROW_PX, ROW_PX, VirtualList } from "../../components/virtual-list.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { query, setQuery } from "../../router/location.js";
import { AgentBadge, LeaseBadge } from "./session-badges.js";
import { type TreeRow, treeRows } from "./session-tree.js";

const LIMIT = 1_000;
/** Deeper sessions are not indented further. */
const MAX_INDENT = 6;

interface Sessions {
  readonly sessions: readonly Session[];
  readonly agents: ReadonlyMap<string, AgentSession>;
}

async function readSessions(all: boolean, signal: AbortSignal): Promise<Sessions> {
  const which = { limit: LIMIT, ...(all ? { all: "1" as const } : {}) };
  const [{ sessions }, { sessions: agents }] = await Promise.all([
    request("listSessions", { query: which, signal }),
    request("acpList", { query: which, signal }),
  ]);
  return { sessions, agents: new Map(agents.map((each) => [each.sessionId, each])) };
}

/** The sessions, each below the session that opened it. */
export function SessionsView() {
  const all = query.value.get("all") === "1";
  const sessions = useResource(`sessions ${all}`, (signal) => readSessions(all, signal), {
    everyMs: defaults.sessionsPollMs,
  });
  return (
    <>
      <h1 class="title">
        Sessions <span class="count">{sessions.value?.sessions.length.toLocaleString()}</span>
      </h1>
      <div class="filters">
        <label class="check">
          <input
            type="checkbox"
            checked={all}
            onChange={(event) => setQuery("all", event.currentTarget.checked ? "1" : null)}
          />
          Also closed sessions
        </label>
      </div>
      <ResourceView resource={sessions}>
        {({ sessions: rows, agents }) =>
          rows.length === 0 ? (
            <EmptyState title={all ? "There are no sessions" : "No session is open"}>
              Open one: <code>holdfast acp spawn claude</code>
            </EmptyState>
          ) : (
            <VirtualList
              label="Sessions"
              items={treeRows(rows)}
              itemKey={({ session }) => session.id}
              render={(row) => <SessionRow row={row} agent={agents.get(row.session.id)} />}
              itemHeight={ROW_PX}
              narrowItemHeight={NARROW_ROW_PX}
            />
          )
        }
      </ResourceView>
    </>
  );
}

interface SessionRowProps {
  readonly row: TreeRow;
  readonly agent: AgentSession | undefined;
}

function SessionRow({ row: { session, depth, parent }, agent }: SessionRowProps) {
  const { id, key, agentId, leaseState, createdAt, closedAt } = session;
  return (
    <a class="list-row session-row" href={`/sessions/${id}`}>
      <span class="session-state">
        {closedAt !== null ? (
          <LeaseBadge state="closed" />
        ) : agent === undefined ? (
          <LeaseBadge state={leaseState} />
        ) : (
          <AgentBadge state={agent.state} />
        )}
      </span>
      <span
        class="session-name"
        title={key}
        style={{ paddingLeft: `${Math.min(depth, MAX_INDENT) * 1.5}rem` }}
      >
        {depth > 0 && (
          <span class="branch" aria-hidden="true">
            └{" "}
          </span>
        )}
        <bdi>{key}</bdi>
        {parent !== null && <span class="visually-hidden">, below session {parent.key}</span>}
      </span>
      <span class="session-facts">
        <bdi class="cut">{agent?.agent ?? agentId ?? ""}</bdi>
        <TimeAgo at={closedAt ?? createdAt} />
      </span>
    </a>
  );
}
