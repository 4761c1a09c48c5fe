import { fileURLToPath } from "node:url";
import { CLI_OUTPUTS } from "../../../src/config/agents.js";

const script = fileURLToPath(new URL("programs/fake-cli.mjs", import.meta.url));
const argvJson = (...argv: readonly string[]): string => JSON.stringify([process.execPath, script, ...argv]);

/** A config with one agent per dialect, all run by programs/fake-cli.mjs. */
export const fakeAgentsConfig = CLI_OUTPUTS.map(
  (output) => `
[agents.${output}]
versionArgs = ${JSON.stringify([script, "--version"])}
env = { FAKE_KEY = "sk-of-the-entry" }
[agents.${output}.cli]
argv = ${argvJson(output)}
resumeArgv = ${argvJson(output, "--resume", "{sessionId}")}
output = "${output}"
`,
).join("");

/** An agent that prints plain text, and takes the id of a new session. */
export const agentWithGivenSessionId = `
[agents.given.cli]
argv = ${argvJson("text", "--resume", "{newSessionId}")}
resumeArgv = ${argvJson("text", "--resume", "{sessionId}")}
`;
