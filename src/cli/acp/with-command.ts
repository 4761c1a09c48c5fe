import type { Command } from "commander";
import { noticeInstallHint } from "../agents/command.js";
import { addNotifyOptions } from "../client/notify-options.js";
import type { SetExitCode } from "../options/command-definition.js";
import { addDetachOption, collectPairs } from "../options/parsers.js";
import { reportError } from "../print/errors-and-notices.js";
import {
  addContentOptions,
  addDisplayOptions,
  addPermissionOptions,
  answerHelp,
  yesOption,
} from "./prompt-and-spawn-commands.js";
import type { WithFlags } from "./directory-session.js";

const withHelp = `
The short form is "holdfast acp <agent>", if no command of acp has the agent's name.
Each directory has a default session with each agent, and others with --session. The
first prompt opens the session, later prompts continue it, and "acp close" closes it.
Without a prompt, the command opens the session and prints its id. --model and --option
also change an open session. A session keeps the permissions that it was opened with:
the command is refused if it names others, and --new opens another session with them.

An agent that is not installed and that is an npm package can be fetched with npx, in
the version of the catalogue: you are asked on a terminal, and --yes agrees elsewhere.
${answerHelp}
Examples:
  holdfast acp codex "find the slowest test and explain why"
  holdfast acp codex "now make it faster"
  holdfast acp claude -s review "review the last commit"
  holdfast acp gemini --once --format quiet "one word: what is this?"
`;

export function addWith(acp: Command, setExitCode: SetExitCode): void {
  const command = acp
    .command("with")
    .summary("open or continue this directory's session with an agent")
    .description("Open or continue this directory's session with an agent, and send it a prompt.")
    .argument("<agent>", "an agent of the catalogue that speaks ACP (holdfast agents)")
    .argument("[prompt]", "the prompt; - reads it from stdin")
    .option(
      "-s, --session <name>",
      "use this session of the directory instead of its default one; opens it if it does not exist",
    )
    .option("--new", "close the open session, and open another")
    .option("--once", "open a session only for this prompt, and close it after the answer")
    .option("--model <model>", "the agent's model, by id or name")
    .option(
      "--option <option=value>",
      "a config option of the agent, such as thought_level=high (repeatable)",
      collectPairs,
    );
  addPermissionOptions(command).addOption(yesOption());
  addDetachOption(command, "do not wait for the answer; prints the turn id");
  addNotifyOptions(command);
  addContentOptions(command);
  addDisplayOptions(command)
    .addHelpText("after", withHelp)
    .action(async (agent: string, prompt: string | undefined, flags: WithFlags) => {
      const { useAgent } = await import("./directory-session.js");
      setExitCode(noticeInstallHint(await useAgent(agent, prompt, flags).catch(reportError)));
    });
}
