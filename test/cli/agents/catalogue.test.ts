import { expect, test } from "vitest";
import { agentTable } from "../../../src/cli/agents/agents.js";

const form = { argv: ["mine"], executable: `/opt/${"deep/".repeat(20)}bin/mine` };
const agent: Parameters<typeof agentTable>[0][number] = {
  id: "mine",
  name: "My own",
  from: "config",
  acp: form,
  cli: { ...form, resumes: true, output: "text" },
  install: null,
};

test("on a terminal, a long path hides nothing that stands beside it; elsewhere it is whole", () => {
  const [, narrow = ""] = agentTable([agent], 80);
  expect(narrow).toMatch(/^mine {3}config {2}(…\S+\/bin\/mine {2}){2}My own$/);
  const [, whole = ""] = agentTable([agent], null);
  expect(whole).toContain(form.executable);
});
