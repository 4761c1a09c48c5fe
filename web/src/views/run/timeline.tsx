import { request } from "../../api/client.js";
import type { Run, RunEvent } from "../../api/types.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { useResource } from "../../live/use-resource.js";
import { eventText } from "./event-text.js";

const PAGE = 1_000;
/** Older ones are left out: a run of days has thousands. */
const SHOWN = 200;

/** The events of a run, from its record to its proven end. */
export function Timeline({ run }: { readonly run: Run }) {
  const events = useResource(`events ${run.runId}`, (signal) => readEvents(run.runId, signal), {
    runIds: [run.runId],
  });
  return (
    <Section title="Timeline">
      <ResourceView resource={events}>
        {(all) => {
          const shown = withoutHeartbeats(all);
          return (
            <ol class="timeline panel">
              <TimelineEntry at={run.createdAt} title="Recorded" detail="before its process existed" />
              {shown.length > SHOWN && (
                <li class="quiet">{(shown.length - SHOWN).toLocaleString()} earlier events are not shown</li>
              )}
              {shown.slice(-SHOWN).map((event) => (
                <TimelineEntry key={event.seq} at={event.at} {...eventText(event)} />
              ))}
            </ol>
          );
        }}
      </ResourceView>
    </Section>
  );
}

function TimelineEntry({
  at,
  title,
  detail,
}: {
  readonly at: number;
  readonly title: string;
  readonly detail: string | null;
}) {
  const date = new Date(at);
  return (
    <li>
      <time class="quiet number" dateTime={date.toISOString()} title={date.toLocaleString()}>
        {date.toLocaleTimeString([], { hour12: false })}
      </time>
      <span>
        <b>{title}</b> {detail !== null && <bdi class="quiet">{detail}</bdi>}
      </span>
    </li>
  );
}

async function readEvents(runId: string, signal: AbortSignal): Promise<readonly RunEvent[]> {
  const found: RunEvent[] = [];
  for (let after = 0; ;) {
    const page = await request("events", { query: { run: runId, after, limit: PAGE }, signal });
    found.push(...(page.events as unknown as RunEvent[]));
    if (page.events.length < PAGE) return found;
    after = page.after;
  }
}

/** Only the last of the regular notices that the run prints. */
function withoutHeartbeats(events: readonly RunEvent[]): readonly RunEvent[] {
  const last = events.findLast(({ type }) => type === "output");
  return events.filter((event) => event.type !== "output" || event === last);
}
