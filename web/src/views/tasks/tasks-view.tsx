import type { Task } from "../../api/types.js";
import { EmptyState } from "../../components/empty-state.js";
import { ErrorBox } from "../../components/error-box.js";
import { TimeAgo } from "../../components/time-ago.js";
import { NARROW_ROW_PX, ROW_PX, VirtualList } from "../../components/virtual-list.js";
import { query, setQuery } from "../../router/location.js";
import { deliveryText, TaskBadge } from "./task-badge.js";
import { type TaskFilter, useTaskPages } from "./task-pages.js";

interface Choice {
  readonly value: string;
  readonly title: string;
  readonly filter: TaskFilter;
}

/** The filters of the list. Each is a parameter of the page's URL. */
const STATUS: readonly Choice[] = [
  { value: "", title: "Every status", filter: {} },
  { value: "open", title: "Open", filter: { open: "1" } },
  { value: "succeeded", title: "Succeeded", filter: { status: "succeeded" } },
  { value: "problem", title: "Failed, timed out or lost", filter: { status: "failed,timed_out,lost" } },
  { value: "cancelled", title: "Cancelled", filter: { status: "cancelled" } },
];
const TOLD: readonly Choice[] = [
  { value: "", title: "Told or not", filter: {} },
  { value: "failed", title: "Not delivered", filter: { delivery: "failed" } },
  { value: "pending", title: "Not told yet", filter: { delivery: "pending,session_queued" } },
  { value: "delivered", title: "Told", filter: { delivery: "delivered" } },
];
const WORK: readonly Choice[] = [
  { value: "", title: "Every kind of work", filter: {} },
  { value: "exec", title: "Commands", filter: { runtime: "exec" } },
  { value: "agent", title: "Agents", filter: { runtime: "acp,subagent" } },
  { value: "external", title: "Other programs", filter: { runtime: "external" } },
];

/** Records of background work, newest first. */
export function TasksView() {
  const chosen = [
    { name: "status", label: "Status", choices: STATUS },
    { name: "told", label: "Notification", choices: TOLD },
    { name: "work", label: "Work", choices: WORK },
  ].map((each) => {
    const given = query.value.get(each.name) ?? "";
    return { ...each, choice: each.choices.find(({ value }) => value === given) ?? each.choices[0] };
  });
  const session = query.value.get("session");
  const filter: TaskFilter = Object.assign(
    {},
    ...chosen.map(({ choice }) => choice?.filter),
    session === null ? {} : { session },
  );
  const filtered = Object.keys(filter).length > 0;
  const { tasks, more, error, reload, onRange } = useTaskPages(filter);
  return (
    <>
      <h1 class="title">
        Tasks
        {tasks !== undefined && (
          <span class="count">
            {tasks.length.toLocaleString()}
            {more && " loaded, more below"}
          </span>
        )}
      </h1>
      <div class="filters" role="search" aria-label="Filters">
        {chosen.map(({ name, label, choices, choice }) => (
          <select
            key={name}
            aria-label={label}
            value={choice?.value ?? ""}
            onChange={(event) => setQuery(name, event.currentTarget.value)}
          >
            {choices.map(({ value, title }) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        ))}
        {session !== null && (
          <button type="button" onClick={() => setQuery("session", null)}>
            Session <bdi class="cut">{session}</bdi> ✕
          </button>
        )}
      </div>
      {error !== null && <ErrorBox error={error} retry={reload} />}
      {tasks === undefined ? (
        error === null && <p class="quiet">Loading…</p>
      ) : tasks.length > 0 ? (
        <VirtualList
          label="Tasks"
          items={tasks}
          itemKey={({ taskId }) => taskId}
          render={(task) => <TaskRow task={task} />}
          itemHeight={ROW_PX}
          narrowItemHeight={NARROW_ROW_PX}
          onRange={onRange}
        />
      ) : filtered ? (
        <EmptyState title="No task matches the filters">
          <a href="/tasks">Show all tasks</a>
        </EmptyState>
      ) : (
        <EmptyState title="There are no tasks">
          Start work in the background: <code>holdfast run --detach -- make release</code>
        </EmptyState>
      )}
    </>
  );
}

function TaskRow({ task }: { readonly task: Task }) {
  const { taskId, label, text, progress, summary, error, lastEventAt } = task;
  const news = task.endedAt === null ? progress : (error ?? summary);
  const name = label === "" ? text : label;
  return (
    <a class="list-row task-row" href={`/tasks/${taskId}`}>
      <TaskBadge task={task} />
      <span class="task-words" title={news === null ? name : `${name}\n${news}`}>
        <bdi>{name === "" ? taskId : name}</bdi>
        {news !== null && news !== "" && <bdi class="quiet task-news">{news}</bdi>}
      </span>
      <span class="task-facts">
        <span class={task.delivery === "failed" ? "problem" : undefined}>{deliveryText(task)}</span>
        <TimeAgo at={lastEventAt} />
      </span>
    </a>
  );
}
