import type { Command } from "commander";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import {
  addNotifyOptions,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
  targetlessNotifyOption,
} from "../client/notify-options.js";
import { asOptionParser, collectPairs, type SetExitCode } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { currentUmask, reportRunFailure } from "../run/command.js";

/** Of a known agent: a command that is not there wants to be installed. */
export function noticeInstallHint(code: number): number {
  if (code === exitCodes.notFound) notice("`holdfast agents list` says how to get it", "dim");
  return code;
}

const listExamples = `
Agents are entries of a catalogue: those that are built in, and tables
[agents.<name>] of the config, which stand beside them or in their place.

Exit status of check: 0, 1 there is no such agent, 3 not every command works.

Examples:
  holdfast agents list
  holdfast agents check claude codex
`;

export function addAgentsCommand(program: Command, setExitCode: SetExitCode): void {
  const agents = program
    .command("agents")
    .summary("agents that are known: list, check")
    .description("Agents that are known, and whether they are there.")
    .addHelpText("after", listExamples);
  agents
    .command("list")
    .summary("all of them, and where their commands lie")
    .description("All agents that are known, and where their commands lie. Only reads: nothing is executed.")
    .option("--json", "as a JSON array")
    .action(async ({ json }: { readonly json?: true }) => {
      const { printAgents } = await import("./catalogue.js");
      setExitCode(await printAgents(json === true));
    });
  agents
    .command("check")
    .summary("ask their commands for their versions")
    .description(
      "Ask agents' commands for their versions, each by a run with a deadline; without names, all that are there.",
    )
    .argument("[agent...]", "which")
    .option("--json", "as a JSON array")
    .action(async (names: string[], { json }: { readonly json?: true }) => {
      const { checkAgents } = await import("./catalogue.js");
      setExitCode(await checkAgents(names, json === true));
    });
}

const runExamples = `
The prompt is given to the agent's own command, which runs like every command:
owned until each of its processes is gone, and stopped when it is silent for
longer than the agent's profile allows. What it says is shown while it works
and kept in a session of its own, with the prompt; --resume goes on with one.

Exit status: as of \`holdfast run\`; 1 when the command ended well, but the agent
says that it failed.

Examples:
  holdfast agent run claude "why does the build fail?"
  holdfast agent run claude --resume last "fix it, then"
  holdfast agent run codex --background --cwd ~/src/site "update the docs"
  git diff | holdfast agent run gemini -
`;

interface RunFlags extends NotifyFlags {
  readonly resume?: string;
  readonly background?: true;
  readonly cwd?: string;
  readonly clearEnv?: true;
  readonly timeout: number;
  readonly grace: number;
  readonly label: Readonly<Record<string, string>>;
  readonly json?: true;
}

export function addAgentCommand(program: Command, setExitCode: SetExitCode): void {
  const duration = asOptionParser(parseDuration);
  const agent = program
    .command("agent")
    .summary("give an agent's own command one prompt: run")
    .description("Give an agent's own command one prompt.");
  const run = agent
    .command("run")
    .summary("run an agent's one-shot command with a prompt")
    .description("Run an agent's one-shot command with a prompt, and show what it says.")
    .argument("<agent>", "one of `holdfast agents list`")
    .argument("<prompt>", "what to tell it; - reads it from stdin")
    .option("--resume <session>", "go on with one: its id or key, the agent's own id of it, or last")
    .option("-b, --background", "hand it to the gateway and leave; prints the run's id");
  addNotifyOptions(run)
    .option("--cwd <directory>", "start it there")
    .option("--clear-env", "start the agent with the gateway's environment, not with this one")
    .option("--timeout <duration>", "stop it after this long: 30m, 1h30m; 0 for never", duration, 0)
    .option("--grace <duration>", "from asking to terminate to killing", duration, defaults.graceMs)
    .option("--label <key=value>", "put a label on the run's record (repeatable)", collectPairs, {})
    .option("--json", "at the end, run, session and result as JSON on stdout; what it says goes to stderr")
    .addHelpText("after", runExamples)
    .action(async (id: string, prompt: string, flags: RunFlags) =>
      setExitCode(noticeInstallHint(await startAgent(id, prompt, flags).catch(reportRunFailure))),
    );
}

async function startAgent(agent: string, said: string, flags: RunFlags): Promise<number> {
  const misplaced = misplacedNotifyOption(flags);
  if (flags.background !== true && misplaced !== null)
    throw new BadInput("option", `${misplaced}: add --background; nothing was started`);
  // One that is gone on with may be another's, who is told.
  const unheard = flags.resume === undefined ? targetlessNotifyOption(flags) : null;
  if (unheard !== null) throw new BadInput("option", `${unheard}; nothing was started`);
  const { runAgentDetached, runAgentInForeground } = await import("./run.js");
  const prompt = said === "-" ? await (await import("node:stream/consumers")).text(process.stdin) : said;
  const umask = currentUmask();
  const request = {
    agent,
    prompt,
    resume: flags.resume ?? null,
    options: {
      ...(flags.cwd === undefined ? {} : { cwd: flags.cwd }),
      ...(umask === undefined ? {} : { umask }),
      clearEnv: flags.clearEnv === true,
      labels: flags.label,
      timeoutMs: flags.timeout,
      graceMs: flags.grace,
    },
    json: flags.json === true,
  };
  return flags.background === true
    ? runAgentDetached(request, notifyBody(flags))
    : runAgentInForeground(request);
}
