import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import { ResourceView } from "../../components/resource-view.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import type { ViewProps } from "../../router/view.js";
import { AgentConversation } from "./agent-conversation.js";
import { CloseSession } from "./close-session.js";
import { LeaseBadge } from "./session-badges.js";
import { SessionFacts, SessionRuns } from "./session-facts.js";
import { SessionHistory } from "./session-history.js";

type Status = ResponseOf<"sessionStatus">;

/** One session: the conversation with its agent, or its messages and runs. */
export function SessionView({ params: { sessionId = "" } }: ViewProps) {
  const status = useResource(
    `session ${sessionId}`,
    (signal) => request("sessionStatus", { params: { id: sessionId }, signal }),
    { everyMs: defaults.sessionPollMs },
  );
  return (
    <>
      <p class="back">
        <a href="/sessions">All sessions</a>
      </p>
      <ResourceView resource={status}>
        {(found) =>
          found.acp === null ? (
            <PlainSession status={found} reload={status.reload} />
          ) : (
            <AgentConversation key={found.session.id} status={found} reload={status.reload} />
          )
        }
      </ResourceView>
    </>
  );
}

/** A session whose work is started by a program through the API. */
function PlainSession({ status, reload }: { readonly status: Status; readonly reload: () => void }) {
  const { session, runs } = status;
  return (
    <>
      <h1 class="title">
        <bdi>{session.key}</bdi>
        <LeaseBadge state={session.closedAt === null ? session.leaseState : "closed"} />
      </h1>
      <CloseSession status={status} onClosed={reload} />
      <SessionFacts status={status} />
      <SessionRuns runs={runs} />
      <SessionHistory sessionId={session.id} />
    </>
  );
}
