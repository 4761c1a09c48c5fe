import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";
import { agentRecipes, prepareAgent } from "./agent-recipes.js";

const SLOWLY = 120_000;
const fixture = gatewayForFile();
/** Every agent but Pi asks before it executes these. */
const command = (file: string): string =>
  `touch ${file} && rm -rf nothing && curl -s http://127.0.0.1:9/; true`;

type Request = ResponseOf<"acpPermissions">["permissions"][number];

/** A session of an agent whose model executes commands. */
async function open(agent: string, asking = agentRecipes[agent]?.asking) {
  const { client } = fixture;
  const { home: cwd, model, inherit } = await prepareAgent(agent);
  const { settings, env } = asking ?? {};
  const environment = { ...inherit, ...env };
  const { session } = await client.acpSpawn({ body: { agent, cwd, environment, settings } });
  const params = { id: session.sessionId };
  const query = { session: session.sessionId };
  const pending = async (): Promise<Request | undefined> =>
    (await client.acpPermissions({ query })).permissions[0];
  return {
    made: (file: string) => existsSync(join(cwd, file)),
    /** Each decision with its actor, in the order of the requests. */
    async decisions() {
      const { permissions } = await client.acpPermissions({ query: { ...query, all: "1" } });
      return permissions
        .toSorted((one, other) => one.askedAt - other.askedAt)
        .map(({ decision }) => `${decision?.verdict} by ${decision?.actor.replace(/ prl_.*/, "")}`);
    },
    close: () => client.acpClose({ params }),
    /** Executes a command; `answer` is called with its request, if the agent asks and no rule answers. */
    async execute(script: string, answer?: (request: Request, digest: string) => Promise<unknown>) {
      model.script.command = script;
      const prompt = client.acpPrompt({ params, body: { text: "go" } });
      if (answer !== undefined) {
        const request = await waitFor("it asks", pending);
        const { digest } = await client.acpQuestion({ params: { id: request.id }, query: {} });
        await answer(request, digest ?? "");
      }
      return (await prompt).turn;
    },
  };
}

const allowAlways = ({ id }: Request, digest: string): Promise<unknown> =>
  fixture.client.acpAnswer({
    params: { id },
    body: { verdict: "allow", digest, remember: { scope: "session" } },
  });

const deny = ({ id }: Request, digest: string): Promise<unknown> =>
  fixture.client.acpAnswer({ params: { id }, body: { verdict: "deny", digest } });

test.each(Object.keys(agentRecipes).filter((name) => !["copilot", "pi"].includes(name)))(
  "%s: a remembered answer answers the same request, but not one for another command",
  async (agent) => {
    const session = await open(agent);
    expect(await session.execute(command("made"), allowAlways)).toMatchObject({ outcome: "completed" });
    expect(session.made("made")).toBe(true);
    expect(await session.execute(command("made"))).toMatchObject({ outcome: "completed" });
    // Codex ends its turn after a denial.
    const denied = await session.execute(command("other"), deny);
    expect(denied.outcome).toBe(agent === "codex" ? "cancelled" : "completed");
    expect(session.made("other")).toBe(false);
    expect(await session.decisions()).toEqual(["allow by operator", "allow by rule", "deny by operator"]);
    await session.close();
  },
  SLOWLY,
);

test(
  "copilot: its title is its model's description, and a remembered answer does not answer for another command with it",
  async () => {
    const session = await open("copilot");
    const titles: (string | null)[] = [];
    const noting =
      (answer: typeof deny) =>
      (request: Request, digest: string): Promise<unknown> => {
        titles.push(request.title);
        return answer(request, digest);
      };
    await session.execute(command("made"), noting(allowAlways));
    await session.execute(command("made"));
    await session.execute(command("other"), noting(deny));
    // The fake model describes every command like this.
    expect(titles).toEqual(["'as asked'", "'as asked'"]);
    expect([session.made("made"), session.made("other")]).toEqual([true, false]);
    expect(await session.decisions()).toEqual(["allow by operator", "allow by rule", "deny by operator"]);
    await session.close();
  },
  SLOWLY,
);

test(
  "codex: in the mode that it starts in, it asks a model instead of its client",
  async () => {
    const session = await open("codex", { settings: { mode: "agent" } });
    const { toolCalls } = await session.execute(command("made"));
    expect(toolCalls.map(({ title }) => title)).toContain("Guardian Review");
    // The fake model does not approve.
    expect(session.made("made")).toBe(false);
    expect(await session.decisions()).toEqual([]);
    await session.close();
  },
  SLOWLY,
);

test(
  "pi: it executes commands without asking",
  async () => {
    const session = await open("pi");
    await session.execute(command("made"));
    expect(session.made("made")).toBe(true);
    expect(await session.decisions()).toEqual([]);
    await session.close();
  },
  SLOWLY,
);
