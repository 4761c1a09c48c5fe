import { CLIENT_INFO_META_KEY, SUBSCRIPTION_ID_META_KEY } from "@modelcontextprotocol/server";
import type { SessionConnection } from "../session/session-connection.js";
import { followResource, followTask, readState } from "./follow-resource.js";
import { parseResourceUri, taskUri } from "./resources.js";
import { taskDetails } from "../tasks/tasks-extension.js";

/** A request `subscriptions/listen` for resources or tasks. */
export interface ListenRequest {
  readonly id: string | number;
  readonly resources: readonly string[];
  readonly taskIds: readonly string[];
  readonly clientName: string;
}

/** Resolves when the client has read enough for another message. */
type Send = (message: object) => Promise<void>;

/** Null: another message, or a subscription to nothing that changes here. */
export function parseListenRequest(message: unknown): ListenRequest | null {
  const { id, method, params } = (message ?? {}) as Readonly<Record<string, unknown>>;
  if (method !== "subscriptions/listen" || (typeof id !== "string" && typeof id !== "number")) return null;
  const { notifications, _meta } = (params ?? {}) as {
    readonly notifications?: { readonly resourceSubscriptions?: unknown; readonly taskIds?: unknown };
    readonly _meta?: Readonly<Record<string, { readonly name?: unknown } | undefined>>;
  };
  const resources = texts(notifications?.resourceSubscriptions).filter(
    (uri) => parseResourceUri(uri) !== null,
  );
  const taskIds = texts(notifications?.taskIds);
  if (resources.length + taskIds.length === 0) return null;
  const clientName = _meta?.[CLIENT_INFO_META_KEY]?.name;
  return { id, resources, taskIds, clientName: typeof clientName === "string" ? clientName : "" };
}

function texts(value: unknown): readonly string[] {
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  return [...new Set(list.filter((each) => typeof each === "string"))];
}

/** Counts what a subscription follows, until it is disposed. Throws TooManyRequests. */
export function countListen(
  connection: SessionConnection,
  { resources, taskIds }: ListenRequest,
): Disposable {
  return connection.countFollowed(resources.length + taskIds.length);
}

/** Confirms a subscription and sends its notifications, until `signal` aborts. */
export async function serveListen(
  connection: SessionConnection,
  { id, resources, taskIds }: ListenRequest,
  send: Send,
  signal: AbortSignal,
): Promise<void> {
  const notify = async (method: string, params: object): Promise<void> => {
    if (!signal.aborted)
      await send({
        jsonrpc: "2.0",
        method,
        params: { ...params, _meta: { [SUBSCRIPTION_ID_META_KEY]: id } },
      });
  };
  const statesOf = (uris: readonly string[]) =>
    Promise.all(uris.map((uri) => readState(connection, uri, signal)));
  const [resourceStates, taskStates] = await Promise.all([
    statesOf(resources),
    statesOf(taskIds.map(taskUri)),
  ]);
  await notify("notifications/subscriptions/acknowledged", {
    notifications: {
      ...(resources.length === 0 ? {} : { resourceSubscriptions: resources }),
      ...(taskIds.length === 0 ? {} : { taskIds }),
    },
  });
  await Promise.all([
    ...resources.map((uri, at) =>
      followResource(
        connection,
        uri,
        resourceStates[at] ?? null,
        () => notify("notifications/resources/updated", { uri }),
        signal,
      ),
    ),
    ...taskIds.map((taskId, at) =>
      followTask(
        connection,
        taskId,
        taskStates[at] ?? null,
        async (task) => notify("notifications/tasks", { ...(await taskDetails(connection, task)) }),
        signal,
      ),
    ),
  ]);
}
