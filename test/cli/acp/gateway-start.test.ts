import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
/** The protocol's own example agent. */
const EXAMPLE = `'${process.execPath}' --import '${at("../../support/agents/programs/fast-timers.mjs")}' '${at("../../../node_modules/acp-sdk-1/dist/examples/agent.js")}'`;

test("who acts has a gateway started, who looks does not, and reads the same from the store", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  const nothing = await gatewayFixture.holdfast("acp", "list");
  expect(nothing).toMatchObject({ code: 0, stdout: "" });
  expect(nothing.stderr).toContain("no gateway is running");
  expect(await gatewayFixture.processes()).toEqual([]);

  const words = ["--agent-command", EXAMPLE, "--name", "example", "--approve-all"];
  const spawned = await gatewayFixture.holdfast("acp", "spawn", ...words, "hello");
  expect(spawned.stderr).toContain("started a gateway in the background");
  expect(spawned.code).toBe(0);
  expect(spawned.stdout).toMatch(
    /^I'll help you.*\n\n· read: Reading project files .*have been applied\.\n$/s,
  );
  const looks = [["history"], ["show", "--json"], ["watch", "--json"]];
  const look = async (): Promise<string[]> => {
    const said = looks.map(([verb = "", ...flags]) =>
      gatewayFixture.holdfast("acp", verb, "example", ...flags),
    );
    return (await Promise.all(said)).map(({ stdout }) => stdout);
  };
  expect(await gatewayFixture.holdfast("acp", "close", "example")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^example \(ses_\w+\) is closed; none of its processes is left\n$/,
    ) as string,
  });
  const before = await look();
  await gatewayFixture.stop();
  const after = await look();
  expect(await gatewayFixture.processes()).toEqual([]);
  const tree = /"tree": \{[^}]*\}/s;
  expect(after.map((text) => text.replace(tree, ""))).toEqual(before.map((text) => text.replace(tree, "")));
  expect(before.every((text) => text.length > 100)).toBe(true);
});
