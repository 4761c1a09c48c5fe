import type { Result, ServerContext } from "@modelcontextprotocol/server";
import type { SessionConnection } from "../session/session-connection.js";
import type { SdkServer } from "../sdk-server.js";
import { followResource, readState } from "./follow-resource.js";
import { listResources, readResource, RESOURCE_TEMPLATES } from "./resources.js";

type WithConnection = <Answer>(
  context: ServerContext,
  work: (connection: SessionConnection) => Promise<Answer>,
) => Promise<Answer>;

/** Resources, and the subscriptions of clients up to 2025-11-25; later ones use `subscriptions/listen`. */
export function addResourceHandlers(server: SdkServer, connected: WithConnection): void {
  server.setRequestHandler("resources/list", async ({ params }, context) => {
    const list = (connection: SessionConnection) =>
      listResources(connection, params?.cursor, context.mcpReq.signal);
    return (await connected(context, list)) as Awaited<ReturnType<typeof list>> & { resources: never[] };
  });
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: RESOURCE_TEMPLATES.map((each) => ({ ...each })),
  }));
  server.setRequestHandler("resources/read", async ({ params }, context) => {
    const read = (connection: SessionConnection) =>
      readResource(connection, params.uri, context.mcpReq.signal);
    return (await connected(context, read)) as Result & { contents: never[] };
  });
  const subscriptions = new Map<string, AbortController>();
  let closed = false;
  server.setRequestHandler("resources/subscribe", async ({ params: { uri } }, context) => {
    await connected(context, async (connection) => {
      const over = new AbortController();
      const counted = connection.countFollowed(1);
      try {
        // The resource must exist, and be visible.
        await readResource(connection, uri, context.mcpReq.signal);
      } catch (error) {
        counted[Symbol.dispose]();
        throw error;
      }
      const from = await readState(connection, uri, context.mcpReq.signal);
      if (closed) return counted[Symbol.dispose]();
      subscriptions.get(uri)?.abort();
      subscriptions.set(uri, over);
      const changed = (): Promise<void> => server.sendResourceUpdated({ uri }).catch(() => undefined);
      void followResource(connection, uri, from, changed, over.signal).finally(() =>
        counted[Symbol.dispose](),
      );
    });
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    subscriptions.get(uri)?.abort();
    subscriptions.delete(uri);
    return {};
  });
  const { onclose } = server;
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no event target
  server.onclose = () => {
    closed = true;
    for (const each of subscriptions.values()) each.abort();
    onclose?.();
  };
}
