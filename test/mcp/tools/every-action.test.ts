import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { tools } from "../../../src/mcp/server.js";
import { scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { describeOpenRequests, recordOpenRequests } from "../../support/gateway/open-requests.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { eachTransport } from "../../support/mcp/each-transport.js";
import { callTool, type ToolResult } from "../../support/mcp/mcp-clients.js";
import { waitFor } from "../../support/wait-for.js";

const program = fileURLToPath(new URL("../../support/agents/programs/scripted-agent.mjs", import.meta.url));
const argv = JSON.stringify([process.execPath, program]);
const fixture = gatewayForFile({
  config: parseConfig(`[gateway]\nlisten = "127.0.0.1:0"\n\n[agents.mine.acp]\nargv = ${argv}\n`, "c.toml"),
});

recordOpenRequests();

interface Args extends Readonly<Record<string, unknown>> {
  readonly action?: string;
}

const SERVER = `require("node:http").createServer((_, answer) => answer.end())
  .listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;

/** Every tool with each of its actions, from their schemas. */
function everyAction(): string[] {
  return tools.flatMap(({ name, inputSchema }) => {
    const { action } = inputSchema["properties"] as {
      readonly action?: { readonly enum: readonly string[] };
    };
    return action === undefined ? [name] : action.enum.map((each) => `${name} ${each}`);
  });
}

test.each(eachTransport(fixture, "allow"))(
  "the SDK's client uses every tool with every action over $name",
  async ({ open }) => {
    const client = await open();
    const driven = new Set<string>();
    const call = async <Data>(name: string, args: Args): Promise<ToolResult<Data>> => {
      const answer = await callTool<Data>(client, name, args).catch(async (cause: unknown) => {
        const { runs } = await fixture.client.listRuns({ query: {} });
        const states = runs.map(({ runId, state, command: text }) => `${runId} ${state} ${text}`);
        const about = [describeOpenRequests(), "open runs:", ...states, ...fixture.problems].join("\n");
        throw new Error(`${name} ${JSON.stringify(args)}: ${String(cause)}; ${about}`, { cause });
      });
      expect(answer.isError, `${name} ${JSON.stringify(args)}: ${answer.text}`).toBe(false);
      driven.add(args.action === undefined ? name : `${name} ${args.action}`);
      return answer;
    };
    interface Started {
      readonly run: { readonly runId: string };
      readonly taskId: string;
    }
    const start = async (args: Args): Promise<{ runId: string; taskId: string }> => {
      const { run, taskId } = (await call<Started>("exec", { background: true, ...args })).data;
      return { runId: run.runId, taskId };
    };
    const wait = async (taskId: string) => {
      const args = { action: "wait", taskId, waitMs: 60_000 };
      return (await call<{ task: { status: string; result: string | null } }>("tasks", args)).data.task;
    };

    const typed = await start({ command: "read line; echo got $line; sleep 300", terminal: true });
    await call("process", { action: "list" });
    await call("process", { action: "submit", runId: typed.runId, text: "a line" });
    const shows = async (action: string, key: string): Promise<boolean> => {
      const { data } = await call<Record<string, { text: string }>>("process", {
        action,
        runId: typed.runId,
      });
      return data[key]?.text.includes("got a line") ?? false;
    };
    await waitFor("poll has the answer", () => shows("poll", "stdout"));
    await waitFor("log has the answer", () => shows("log", "log"));
    await waitFor("the screen has the answer", () => shows("screen", "screen"));
    await call("process", { action: "keys", runId: typed.runId, keys: ["C-c"] });
    expect((await wait(typed.taskId)).status).toBe("failed");

    const piped = await start({ argv: ["cat"], terminal: true });
    await call("process", { action: "write", runId: piped.runId, text: "bytes\n" });
    await call("process", { action: "kill", runId: piped.runId });

    const long = await start({ command: "sleep 300" });
    await call("tasks", { action: "list", open: true });
    await call("tasks", { action: "show", taskId: long.taskId });
    await call("tasks", { action: "notify", taskId: long.taskId, policy: "done_only" });
    const { data: cancelled } = await call<{ outcome: string }>("tasks", {
      action: "cancel",
      taskId: long.taskId,
    });
    expect(cancelled.outcome).toBe("cancelled");

    interface Service {
      readonly service: { readonly runId: string };
    }
    const served = await call<Service>("services", {
      action: "start",
      argv: [process.execPath, "-e", SERVER],
    });
    const { runId } = served.data.service;
    await call("services", { action: "list" });
    const logged = async (): Promise<string> =>
      (await call<{ log: { text: string } }>("services", { action: "logs", runId })).data.log.text.trim();
    await waitFor("it has a port", async () => /^\d+$/.test(await logged()));
    const port = Number(await logged());
    await call("services", { action: "stop", runId });
    const again = SERVER.replace("listen(0,", `listen(${port},`);
    const waited = await call<Service & { readiness: string }>("services", {
      ...{ action: "start", argv: [process.execPath, "-e", again], port, readyMs: 60_000 },
    });
    expect(waited.data.readiness).toBe("ready");
    const ready = { action: "ready", runId: waited.data.service.runId };
    expect((await call<{ readiness: string }>("services", ready)).data.readiness).toBe("ready");
    await call("services", { action: "stop", runId: waited.data.service.runId });

    interface Turn {
      readonly sessionId: string;
      readonly taskId: string;
    }
    const { agents } = (await call<{ agents: object[] }>("agents", { action: "list" })).data;
    expect(agents).toContainEqual({ agent: "mine", name: "mine", available: true });
    const spawned = await call<Turn>("agents", {
      ...{ action: "spawn", agent: "mine", cwd: fixture.home, prompt: scriptedPrompt({ say: "hello" }) },
    });
    const { sessionId: session } = spawned.data;
    expect(await wait(spawned.data.taskId)).toMatchObject({
      status: "succeeded",
      result: expect.stringContaining("hello"),
    });
    const prompt = scriptedPrompt({ say: "again" });
    const second = await call<Turn>("agents", { action: "prompt", session, prompt });
    expect(await wait(second.data.taskId)).toMatchObject({ result: expect.stringContaining("again") });
    const listed = await call<{ sessions: { sessionId: string }[] }>("sessions", { action: "list" });
    expect(listed.data.sessions.map(({ sessionId }) => sessionId)).toContain(session);
    await call("sessions", { action: "send", session, text: "remember", deliver: "next-turn" });
    const history = await call<{ entries: object[] }>("sessions", { action: "history", session });
    expect(history.data.entries).toMatchObject([
      { kind: "turn", answer: "hello" },
      { kind: "turn", answer: "again" },
      { kind: "message", text: "remember" },
    ]);
    expect((await call("agents", { action: "cancel", session })).text).toContain("no turn was running");
    const closed = await call<{ closed: boolean }>("agents", { action: "close", session });
    expect(closed.data.closed).toBe(true);

    expect([...driven].toSorted()).toEqual(everyAction().toSorted());
    await client.close();
  },
);
