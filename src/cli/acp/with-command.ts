import type { Command } from "commander";
import { noticeInstallHint } from "../agents/command.js";
import { addNotifyOptions } from "../client/notify-options.js";
import { addDetachOption, collectPairs, type SetExitCode } from "../options/parsers.js";
import { reportError } from "../print/stderr.js";
import {
  addAttachmentOptions,
  addDisplayOptions,
  addPermissionOptions,
  answerHelp,
  yesOption,
} from "./prompt-command.js";
import type { WithFlags } from "./with.js";

const withHelp = `
The short form is "holdfast acp <agent>", if no command of acp has the agent's name.
Each directory has one session with each agent, and further ones with --session. It is
opened by the first prompt, continued by later ones, and stays until "acp close".
Without a prompt it is opened, and its id is printed. --model and --option also change
an open session. Its permissions are those that it was opened with: the command is
refused if it names others, and --new begins another session with them.

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
    .option("-s, --session <name>", "a further session of this directory")
    .option("--new", "close the open session, and begin another")
    .option("--once", "one prompt in a session of its own, which is then closed")
    .option("--model <model>", "the agent's model, by id or name")
    .option(
      "--option <option=value>",
      "a config option of the agent, such as thought_level=high (repeatable)",
      collectPairs,
    );
  addPermissionOptions(command).addOption(yesOption());
  addDetachOption(command, "do not wait for the answer; prints the turn id");
  addNotifyOptions(command);
  addAttachmentOptions(command);
  addDisplayOptions(command)
    .addHelpText("after", withHelp)
    .action(async (agent: string, prompt: string | undefined, flags: WithFlags) => {
      const { useAgent } = await import("./with.js");
      setExitCode(noticeInstallHint(await useAgent(agent, prompt, flags).catch(reportError)));
    });
}
