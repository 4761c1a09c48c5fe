import { type Command, Option } from "commander";
import { defaults } from "../../defaults.js";
import { addNotifyOptions } from "../client/notify-options.js";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { addDetachOption, asOptionParser, collectPairs } from "../options/parsers.js";
import { parseDuration } from "../options/durations-and-sizes.js";
import { formatDuration } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { reportRunFailure } from "../run/command.js";
import type { RunAgentFlags } from "./list-check-run.js";

/** Adds a hint if the command of a known agent is not installed. */
export function noticeInstallHint(code: number): number {
  if (code === exitCodes.notFound) notice("`holdfast agents` shows how to install it", "dim");
  return code;
}

const listExamples = `
The catalogue has built-in agents, and the tables [agents.<name>] of the config
file, which add to them or replace them.

Exit status of check: 0 all work, 1 no such agent, 3 a command does not work.

Examples:
  holdfast agents
  holdfast agents check claude codex
`;

export function addAgentsCommand(program: Command, setExitCode: SetExitCode): void {
  const agents = program
    .command("agents")
    .summary("the catalogue of agents: list, check")
    .description("The catalogue of agents, and which of them are installed.")
    .addHelpText("after", listExamples);
  agents
    .command("list", { isDefault: true })
    .summary("list agents and the paths of their commands")
    .description(
      "List the agents of the catalogue and the paths of their commands. Read-only: nothing is executed.",
    )
    .option("--json", "print a JSON array")
    .action(lazyAction(setExitCode, () => import("./list-check-run.js"), "printAgents"));
  agents
    .command("check")
    .summary("run agents' commands to print their versions")
    .description(
      "Run agents' commands to print their versions, each as a run with a timeout. Without names, all installed agents are checked.",
    )
    .argument("[agent...]", "their names")
    .option("--json", "print a JSON array")
    .action(lazyAction(setExitCode, () => import("./list-check-run.js"), "checkAgents"));
}

const runExamples = `
The agent's own command gets the prompt. It is a run like any other, and is stopped
when it writes nothing for longer than its profile allows. Its output is shown while
it works, and kept with the prompt in a session; --resume continues a session.

Exit status: as of \`holdfast run\`; 1 if the command succeeded, but the agent
reports an error.

Examples:
  holdfast agent run claude "why does the build fail?"
  holdfast agent run claude --resume last "fix it"
  holdfast agent run codex --detach --cwd ~/src/site "update the docs"
  git diff | holdfast agent run gemini -
`;

export function addAgentCommand(program: Command, setExitCode: SetExitCode): void {
  const duration = asOptionParser(parseDuration);
  const agent = program
    .command("agent")
    .summary("run an agent's own command with one prompt")
    .description("Run an agent's own command with one prompt.");
  const run = agent
    .command("run")
    .summary("run an agent's one-shot command with a prompt")
    .description("Run an agent's one-shot command with a prompt, and show its answer.")
    .argument("<agent>", "one of `holdfast agents`")
    .argument("<prompt>", "the prompt; - reads it from stdin")
    .option("--resume <session>", "continue a session: its id or key, the agent's own id, or last");
  addDetachOption(run, "run in the background; prints the run id");
  addNotifyOptions(run)
    .option("--cwd <directory>", "run in this directory")
    .option("--clear-env", "use the environment of the gateway instead of this one")
    .addOption(
      new Option("--timeout <duration>", "stop the run after this time: 30m, 1h30m")
        .argParser(duration)
        .default(0, "never"),
    )
    .addOption(
      new Option("--grace <duration>", "time between TERM and KILL")
        .argParser(duration)
        .default(defaults.graceMs, formatDuration(defaults.graceMs)),
    )
    .option("--label <key=value>", "put a label on the run (repeatable)", collectPairs, {})
    .option("--json", "print run, session and result as JSON on stdout at the end; output goes to stderr")
    .addHelpText("after", runExamples)
    .action(async (id: string, prompt: string, flags: RunAgentFlags) => {
      const { runAgent } = await import("./list-check-run.js");
      setExitCode(noticeInstallHint(await runAgent(id, prompt, flags).catch(reportRunFailure)));
    });
}
