import { expect, test } from "vitest";
import { agentRow } from "../../../src/cli/agents/list-check-run.js";

const form = { argv: ["mine"], executable: `/opt/${"deep/".repeat(20)}bin/mine` };
const agent: Parameters<typeof agentRow>[0] = {
  id: "mine",
  name: "My own",
  from: "config",
  acp: { ...form, npm: null },
  cli: { ...form, resumes: true, output: "text" },
  install: null,
  verified: null,
};

test("on a terminal only the end of a long path is shown, elsewhere the whole path", () => {
  expect(agentRow(agent, true)).toEqual([
    "mine",
    "config",
    expect.stringMatching(/^….{0,23}\/bin\/mine$/),
    expect.stringMatching(/^….{0,23}\/bin\/mine$/),
    "My own",
  ]);
  expect(agentRow(agent, false)[2]).toBe(form.executable);
});
