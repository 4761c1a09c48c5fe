import { request } from "../../api/client.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { LongText } from "./long-text.js";
import { visibleText } from "../../components/visible-text.js";

/** The newest messages that are shown. */
const LIMIT = 100;

/** The newest messages of a session, and the runs that ended. */
export function SessionHistory({ sessionId }: { readonly sessionId: string }) {
  const history = useResource(
    `history ${sessionId}`,
    (signal) => request("sessionHistory", { params: { id: sessionId }, query: { limit: LIMIT }, signal }),
    { everyMs: defaults.sessionPollMs },
  );
  return (
    <ResourceView resource={history}>
      {({ messages, runs }) => (
        <>
          <Section title="Messages" count={messages.length}>
            {messages.length === 0 && <p class="quiet">This session has no messages.</p>}
            {messages.map(({ id, role, actor, text, at }) => (
              <article key={id} class={`message message-${role}`}>
                <p class="turn-meta quiet">
                  <b>{role}</b> <bdi class="cut">{actor}</bdi> <TimeAgo at={at} />
                </p>
                <LongText text={visibleText(text)} />
              </article>
            ))}
          </Section>
          {runs.length > 0 && (
            <Section title="Newest commands" count={runs.length}>
              <ul class="links">
                {runs.map(({ runId, command, state, exit, createdAt }) => (
                  <li key={runId}>
                    <a class="mono" href={`/runs/${runId}`} title={command}>
                      <bdi>{command}</bdi>
                    </a>
                    <span class="quiet">
                      {exit === null
                        ? state
                        : exit.reason === "exit"
                          ? `exit ${exit.code ?? "?"}`
                          : exit.reason}
                    </span>
                    <span class="quiet">
                      <TimeAgo at={createdAt} />
                    </span>
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </>
      )}
    </ResourceView>
  );
}
