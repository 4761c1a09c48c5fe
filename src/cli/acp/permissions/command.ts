import { type Command, Option } from "commander";
import { lazyAction, type SetExitCode } from "../../options/command-definition.js";
import { asOptionParser, collectNamedValues } from "../../options/parsers.js";
import type { AnswerFlags } from "./list-and-answer.js";
import { parseRulePattern, PATTERN_HELP } from "./rule-pattern.js";

const permissionsHelp = `
A request that is not answered within five minutes is denied. Only the operator
can answer. A question of an agent to its user (kind elicitation) is answered with
"allow --answer", declined with "deny" or dismissed with "cancel". If a row of the list does not show the whole request (column SHOWN),
"allow" needs the digest that "permissions show" prints at its end.

Exit status of allow, deny and cancel: 0 done, 1 no such request, 3 the answer came too late.
`;

const rulesHelp = `
Rules are tried in this order: denials for the agent and of the config; rules for the
session, the newest first; the rules that the session was opened with; other rules for
the agent and of the config; the default rules (--approve-reads).
`;

export function addPermissions(acp: Command, setExitCode: SetExitCode): void {
  const permissions = acp
    .command("permissions")
    .summary("permission requests of agents: list, show, allow, deny, cancel; rules, add, revoke")
    .description("Permission requests of agents, and the rules that answer them.")
    .addHelpText("after", permissionsHelp);
  addRequestCommands(permissions, setExitCode);
  addRuleCommands(permissions, setExitCode);
}

function addRequestCommands(permissions: Command, setExitCode: SetExitCode): void {
  permissions
    .command("list", { isDefault: true })
    .summary("list open requests and when they expire")
    .description("List the requests that wait for an answer, and when each expires. Read-only.")
    .option("--session <session>", "only requests of this session")
    .option("-a, --all", "also list answered requests")
    .option("--json", "print a JSON array")
    .action(lazyAction(setExitCode, () => import("./list-and-answer.js"), "printPermissions"));
  permissions
    .command("show")
    .summary("show a whole request: command, directory, variables, input")
    .description(
      "Show everything that an agent asks for: each argument, the directory and the variables of a command, or everything that the agent says about its own tool. Secrets are masked inside one word; control and invisible characters are shown as escapes.",
    )
    .argument("<permission>", "its id")
    .option("--reveal", "do not mask secrets")
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./list-and-answer.js"), "showPermission"));
  addVerdicts(permissions, setExitCode);
  permissions
    .command("cancel")
    .summary("dismiss a question of an agent to its user")
    .description("Dismiss a question of an agent to its user: it is neither answered nor declined.")
    .argument("<permission>", "its id")
    .option("--json", "print the request and its decision as JSON")
    .action(async (id: string, flags: AnswerFlags) => {
      const { answerPermission } = await import("./list-and-answer.js");
      setExitCode(await answerPermission(id, "cancel", flags));
    });
}

function addVerdicts(permissions: Command, setExitCode: SetExitCode): void {
  for (const verdict of ["allow", "deny"] as const) {
    const command = permissions
      .command(verdict)
      .summary(verdict === "allow" ? "allow a request" : "deny a request")
      .description(
        `${verdict === "allow" ? "Allow" : "Deny"} a request: once, or with --always also later requests of the same kind and title for the same command.`,
      )
      .argument("<permission>", "its id")
      .option(
        "--digest <digest>",
        "answer only the request with this digest, which `permissions show` prints",
      )
      .option("--always", "remember the answer as a rule, which `permissions revoke` revokes")
      .addOption(
        new Option(
          "--for <scope>",
          "with --always: remember the answer for this session, or for every session with its agent",
        )
          .choices(["session", "agent"])
          .default(undefined, "session"),
      )
      .option(
        "--pattern <pattern>",
        "with --always: remember the answer for all requests that match this pattern",
        asOptionParser(parseRulePattern),
      )
      .option(
        "--option <id>",
        "choose this option of the agent's, such as one that the agent remembers; `permissions show` lists them",
      )
      .option("--json", "print the request and its decision as JSON")
      .addHelpText("after", `\n${PATTERN_HELP}`)
      .action(async (id: string, flags: AnswerFlags) => {
        const { answerPermission } = await import("./list-and-answer.js");
        setExitCode(await answerPermission(id, verdict, flags));
      });
    if (verdict === "allow")
      command.option(
        "--answer <name=value>",
        "answer a question to the user: the value of a field of its form (repeatable)",
        collectNamedValues,
      );
  }
}

function addRuleCommands(permissions: Command, setExitCode: SetExitCode): void {
  permissions
    .command("rules")
    .summary("list the rules of sessions, of agents and of the config")
    .description(
      "List the rules that were remembered or added, newest first, and those of the config. `acp show` shows the rules that a session was opened with. Read-only.",
    )
    .option("--session <session>", "only rules for this session")
    .option("--agent <agent>", "only rules for this agent")
    .option("-a, --all", "also list revoked rules")
    .option("--json", "print a JSON array")
    .addHelpText("after", rulesHelp)
    .action(lazyAction(setExitCode, () => import("./rules.js"), "printPermissionRules"));
  permissions
    .command("add")
    .summary("add a rule to a session or an agent")
    .description("Add a rule to an open session or to an agent. It applies to later permission requests.")
    .argument("<effect>", "allow, deny or ask")
    .argument("<pattern>", "the requests, such as 'execute:git *'")
    .option("--session <session>", "for this session")
    .option("--agent <agent>", "for every session with this agent")
    .option("--json", "print the rule as JSON")
    .addHelpText("after", `\n${PATTERN_HELP}${rulesHelp}`)
    .action(lazyAction(setExitCode, () => import("./rules.js"), "addPermissionRule"));
  permissions
    .command("revoke")
    .summary("revoke rules")
    .description("Revoke rules: later permission requests are judged without them.")
    .argument("<rule...>", "their ids, which `permissions rules` lists")
    .option("--json", "print each rule as JSON")
    .addHelpText("after", "\nExit status: 0 revoked, 1 no such rule, 3 it was revoked before.\n")
    .action(lazyAction(setExitCode, () => import("./rules.js"), "revokePermissionRules"));
}
