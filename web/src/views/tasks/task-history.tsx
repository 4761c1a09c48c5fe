import type { ResponseOf } from "../../../../src/api/contract.js";
import { taskEventText } from "../../../../src/text/task-event.js";
import { Badge, type Tone } from "../../components/badge.js";
import { Table } from "../../components/table.js";
import { TimeAgo } from "../../components/time-ago.js";

type TaskEvent = ResponseOf<"getTask">["events"][number];
type Message = ResponseOf<"getTask">["messages"][number];

const TONES: Readonly<Record<Message["status"], Tone>> = {
  pending: "live",
  delivered: "good",
  session_queued: "wait",
  failed: "bad",
  parent_missing: "bad",
  dismissed: "quiet",
};

/** The notifications of a task: receiver, content and time. */
export function MessageTable({ messages }: { readonly messages: readonly Message[] }) {
  return (
    <Table
      caption="Messages about this task"
      rows={messages}
      rowKey={({ id, target }) => `${id} ${JSON.stringify(target)}`}
      columns={[
        {
          title: "State",
          cell: ({ status }) => <Badge tone={TONES[status]}>{status.replaceAll("_", " ")}</Badge>,
        },
        { title: "To", cell: ({ target }) => <Target target={target} /> },
        {
          title: "Message",
          wide: true,
          cell: ({ text, error }) => (
            <span title={error ?? text}>
              {error === null ? <bdi>{text}</bdi> : <bdi class="problem">{error}</bdi>}
            </span>
          ),
        },
        { title: "Attempts", numeric: true, cell: ({ attempts }) => attempts },
        {
          title: "When",
          numeric: true,
          cell: ({ settledAt, createdAt }) => <TimeAgo at={settledAt ?? createdAt} />,
        },
      ]}
    />
  );
}

function Target({ target }: Pick<Message, "target">) {
  if (target.kind === "session")
    return (
      <a href={`/sessions/${target.sessionId}`} class="cut">
        session {target.sessionId}
      </a>
    );
  const { channel, address } = target;
  return <bdi class="cut">{address === null ? channel : `${channel} (${address})`}</bdi>;
}

/** The events of the task, newest first. */
export function TaskHistory({ events }: { readonly events: readonly TaskEvent[] }) {
  return (
    <ol class="history">
      {events.toReversed().map((event) => (
        <li key={event.seq}>
          <b>{event.type}</b>
          <bdi class="anywhere">{taskEventText(event)}</bdi>
          <span class="quiet">
            <TimeAgo at={event.at} />
          </span>
        </li>
      ))}
    </ol>
  );
}
