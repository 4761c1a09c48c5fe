import { useSignal } from "@preact/signals";
import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import type { Task } from "../../api/types.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { ErrorBox } from "../../components/error-box.js";
import { FieldList } from "../../components/field-list.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { Elapsed, TimeAgo } from "../../components/time-ago.js";
import { useAction } from "../../components/use-action.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { viewerIsOperator } from "../../live/viewer.js";
import type { ViewProps } from "../../router/view.js";
import { DeliveryBadge, TaskBadge } from "./task-badge.js";
import { MessageTable, TaskHistory } from "./task-history.js";

type TaskDetails = ResponseOf<"getTask">;

/** One task: its request and result, its history, and its notifications. */
export function TaskView({ params: { taskId = "" } }: ViewProps) {
  const details = useResource(
    `task ${taskId}`,
    (signal) => request("getTask", { params: { id: taskId }, signal }),
    { everyMs: defaults.taskPollMs },
  );
  return (
    <>
      <p class="back">
        <a href="/tasks">All tasks</a>
      </p>
      <ResourceView resource={details}>
        {(value) => <TaskDetailsView details={value} reload={details.reload} />}
      </ResourceView>
    </>
  );
}

interface DetailsProps {
  readonly details: TaskDetails;
  readonly reload: () => void;
}

function TaskDetailsView({ details: { task, events, messages }, reload }: DetailsProps) {
  return (
    <>
      <h1 class="title">
        <bdi>{task.label === "" ? task.taskId : task.label}</bdi> <TaskBadge task={task} />
      </h1>
      <TaskButtons task={task} undelivered={messages.some(isUndelivered)} reload={reload} />
      {task.progress !== null && task.endedAt === null && <p class="task-text">{task.progress}</p>}
      {task.error !== null && <p class="task-text problem">{task.error}</p>}
      {task.summary !== null && <p class="task-text">{task.summary}</p>}
      <TaskFacts task={task} />
      {task.text !== "" && task.text !== task.label && (
        <Section title="Request">
          <pre class="command">{task.text}</pre>
        </Section>
      )}
      <Section title="Messages" count={messages.length}>
        {messages.length === 0 ? (
          <p class="quiet">No message was sent about this task.</p>
        ) : (
          <MessageTable messages={messages} />
        )}
      </Section>
      <Section title="History" count={events.length}>
        <TaskHistory events={events} />
      </Section>
    </>
  );
}

function isUndelivered({ status }: TaskDetails["messages"][number]): boolean {
  return status === "failed" || status === "parent_missing";
}

function TaskFacts({ task }: { readonly task: Task }) {
  const { taskId, runId, ownerSessionId, childSessionId, parentTaskId, createdAt, startedAt, endedAt } = task;
  return (
    <FieldList
      fields={[
        ["Task", <code key="id">{taskId}</code>],
        ["Work", task.kind === null ? task.runtime : `${task.runtime}: ${task.kind}`],
        [
          "Run",
          runId === null ? null : (
            <a key="run" href={`/runs/${runId}`}>
              {runId}
            </a>
          ),
        ],
        [
          "Requested by",
          ownerSessionId === null ? "the operator" : <SessionLink key="by" id={ownerSessionId} />,
        ],
        ["Done by", childSessionId === null ? null : <SessionLink key="of" id={childSessionId} />],
        [
          "Part of",
          parentTaskId === null ? null : (
            <a key="parent" href={`/tasks/${parentTaskId}`}>
              {parentTaskId}
            </a>
          ),
        ],
        ["Created", <TimeAgo key="created" at={createdAt} />],
        [
          endedAt === null ? "Running for" : "Took",
          startedAt === null ? null : <Elapsed key="time" from={startedAt} to={endedAt} />,
        ],
        ["Notification", <DeliveryBadge key="told" task={task} />],
      ]}
    />
  );
}

function SessionLink({ id }: { readonly id: string }) {
  return <a href={`/sessions/${id}`}>{id}</a>;
}

interface ButtonsProps {
  readonly task: Task;
  /** A message could not be delivered. */
  readonly undelivered: boolean;
  readonly reload: () => void;
}

function TaskButtons({ task: { taskId, endedAt, label }, undelivered, reload }: ButtonsProps) {
  const action = useAction();
  const asking = useSignal(false);
  const params = { id: taskId };
  const send = (verb: "retryTask" | "dismissTask") =>
    action.run(async () => {
      await request(verb, { params });
      reload();
    });
  const cancel = async (): Promise<void> => {
    const { outcome } = await request("cancelTask", { params });
    reload();
    if (outcome === "going-on")
      throw new Error("The cancellation was requested, and the work has not ended yet.");
  };
  if (endedAt !== null && !(undelivered && viewerIsOperator())) return null;
  return (
    <>
      {action.error !== null && <ErrorBox error={action.error} />}
      <div class="answer-buttons">
        {endedAt === null && (
          <button type="button" class="danger" onClick={() => (asking.value = true)}>
            Cancel the task
          </button>
        )}
        {undelivered && viewerIsOperator() && (
          <>
            <button type="button" class="primary" disabled={action.busy} onClick={() => send("retryTask")}>
              Send again
            </button>
            <button type="button" disabled={action.busy} onClick={() => send("dismissTask")}>
              Dismiss the message
            </button>
          </>
        )}
      </div>
      {asking.value && (
        <ConfirmDialog
          title="Cancel this task?"
          action="Cancel the task"
          danger
          onConfirm={cancel}
          onClose={() => (asking.value = false)}
        >
          <p>
            <b>
              <bdi>{label === "" ? taskId : label}</bdi>
            </b>
          </p>
          <p>Its processes are stopped, or its turn is cancelled. That cannot be undone.</p>
        </ConfirmDialog>
      )}
    </>
  );
}
