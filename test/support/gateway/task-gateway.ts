import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import type { Notification } from "../../../src/model/outbox.js";
import { shellAgent } from "../agents/acp-fixture.js";
import { fakeAgentsConfig } from "../agents/fake-agents.js";
import { gatewayForFile } from "./real-gateway.js";
import { waitFor } from "../wait-for.js";

export const userOrigin = { channel: "user" } as const;

type Task = ResponseOf<"getTask">["task"];

/** A gateway for all tests of a file, with a user's channel that notes what it is told, and one that cannot be reached. */
export function taskGateway(moreConfig = "") {
  const place = mkdtempSync(join(tmpdir(), "hf-tasks-"));
  afterAll(() => rmSync(place, { recursive: true }));
  const heard = join(place, "heard");
  writeFileSync(heard, "");
  const config = parseConfig(
    `${fakeAgentsConfig}
[[exec]]
effect = "allow"
[channels.user]
kind = "command"
argv = ["/bin/sh", "-c", "cat >> ${heard}"]
[channels.deaf]
kind = "telegram"
token = { env = "NO_BOT_OF_OURS" }
${moreConfig}`,
    "",
  );
  const fixture = gatewayForFile({ config });

  function userHeard(): (Pick<Notification, "id" | "taskId" | "status" | "text"> & {
    readonly type: string;
  })[] {
    return readFileSync(heard, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as { readonly type: string; readonly data: Notification })
      .map(({ type, data: { id, taskId, status, text } }) => ({ type, id, taskId, status, text }));
  }

  async function shown(id: string, client: GatewayClient = fixture.client): Promise<ResponseOf<"getTask">> {
    return client.getTask({ params: { id } });
  }

  async function ended(id: string, client: GatewayClient = fixture.client): Promise<Task> {
    let { task } = await shown(id, client);
    await waitFor(`${id} has ended`, async () => {
      ({ task } = await shown(id, client));
      return task.endedAt !== null;
    });
    return task;
  }

  async function told(id: string, delivery: Task["delivery"]): Promise<Task> {
    let { task } = await shown(id);
    await waitFor(`${id} is ${delivery}`, async () => {
      ({ task } = await shown(id));
      return task.delivery === delivery;
    });
    return task;
  }

  const typesOf = async (id: string): Promise<string[]> => (await shown(id)).events.map(({ type }) => type);

  /** A session that speaks with the gateway, and an agent of its own that says every prompt again. */
  async function boss(key: string): Promise<{ readonly client: GatewayClient; readonly id: string }> {
    const { session } = await fixture.client.acpSpawn({
      body: { argv: shellAgent("echo"), cwd: place, key, permissions: "approve-all" },
    });
    const { token } = await fixture.client.openSession({ body: { key } });
    return { client: fixture.as(token), id: session.sessionId };
  }

  return { stage: fixture, place, userHeard, shown, ended, told, typesOf, boss };
}
