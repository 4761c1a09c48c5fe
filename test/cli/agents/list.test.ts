import { expect, test } from "vitest";
import { agentLines } from "../../../src/cli/agents/list.js";

const form = { argv: ["mine"], executable: `/opt/${"deep/".repeat(20)}bin/mine` };
const agent: Parameters<typeof agentLines>[0][number] = {
  id: "mine",
  name: "My own",
  from: "config",
  acp: form,
  cli: { ...form, resumes: true, output: "text" },
  install: null,
};

test("on a terminal, a long path hides nothing that stands beside it; elsewhere it is whole", () => {
  const [, narrow = ""] = agentLines([agent], 80);
  expect(narrow).toMatch(/^mine {3}config {2}(…\S+\/bin\/mine {2}){2}My own$/);
  const [, whole = ""] = agentLines([agent], null);
  expect(whole).toContain(form.executable);
});
