import { type Command, Option } from "commander";
import { defaults } from "../../defaults.js";
import { MESSAGE_DELIVERIES, VISIBILITIES } from "../../model/enums.js";
import { type JsonFlag, lazyAction, type SetExitCode } from "../options/command-definition.js";
import {
  asOptionParser,
  collectValues,
  parsePositiveInteger,
  positiveIntegerUpTo,
} from "../options/parsers.js";
import { addExecRuleOptions } from "../options/exec-rule-options.js";
import { parseDuration } from "../options/durations-and-sizes.js";
import type { SessionFlags } from "./create-list-close.js";

const createExamples = `
A token acts for its session: it sees and controls the session's own runs, and may
execute what the session's exec rules allow. The first rule that matches decides, in
the order of the options. A command that no rule matches waits for approval
(holdfast approvals).

A rule names a program by its name in the gateway's PATH, by its absolute path, or by
a directory that ends with /, followed by arguments: * matches one word, ... matches
the rest. "*" alone matches every program. An allowed command gets the gateway's
clean environment; other variables are refused, or shown in the approval. Many
programs can run other programs (git, make, tar, find, less): docs/reference/exec-rules.md
lists programs that are safe to allow.

Examples:
  holdfast sessions create --key chat-7 --allow "ls ..." --allow "wc ..." --deny "*"
  HOLDFAST_TOKEN=$(holdfast sessions create --key ci --ask "*" --json | jq -r .token)
`;

const inboxExamples = `
An ACP agent gets its messages with its turns. A session without such an agent (a
script, or an agent that is run in another way) reads them here and acknowledges
them; only then a notification counts as delivered. Only the session and the operator
can acknowledge. Messages that a running turn is delivering are not shown.

--take reads and acknowledges in one step. To lose no message if the reader is
killed, read first, and acknowledge by id after the message is processed.

Examples:
  holdfast sessions inbox chat-7
  HOLDFAST_TOKEN=$token holdfast sessions inbox --take
  holdfast sessions inbox --json | jq -r '.messages[].id'
  holdfast sessions inbox --acknowledge msg_4k2m8s1x9q0z
`;

interface CreateFlags extends SessionFlags {
  readonly key: string;
  readonly agent?: string;
  readonly parent?: string;
  readonly sandboxed?: true;
  readonly tokenTtl?: number;
}

interface RotateFlags extends JsonFlag {
  readonly grace: number;
  readonly tokenTtl?: number;
}

const SESSION_ARGUMENT = "its key or id, or the beginning of one of them";

/** Lets a session narrow its own visibility. */
function visibilityOption(): Option {
  return new Option("--visibility <level>", "with a session's token: use a narrower visibility").choices(
    VISIBILITIES,
  );
}

export function addSessionsCommand(program: Command, setExitCode: SetExitCode): void {
  const sessions = program
    .command("sessions")
    .summary("sessions and their tokens: create, list, history, inbox, send, close")
    .description("Sessions: identities that start work, with tokens, exec rules and messages.");
  const create = sessions
    .command("create")
    .summary("open a session; prints its id and its token")
    .description("Open a session, or find the open session with that key. Prints its id and a token.")
    .requiredOption("--key <key>", "its key; keys of open sessions are unique")
    .option("--agent <id>", "the agent it belongs to")
    .option("--parent <key>", "the key of its parent session")
    .addOption(new Option("--visibility <level>", "which other sessions it may see").choices(VISIBILITIES))
    .option("--sandboxed", "limit its visibility to its own tree");
  const rules = addExecRuleOptions(create, "");
  create
    .option(
      "--token-ttl <duration>",
      "the token expires after this time, such as 8h or 30d",
      asOptionParser(parseDuration),
    )
    .option("--json", "print session and token as JSON")
    .addHelpText("after", createExamples)
    .action(async ({ key, agent, parent, visibility, sandboxed, tokenTtl, ...flags }: CreateFlags) => {
      const { createSession } = await import("./create-list-close.js");
      const execRules = rules();
      const body = {
        key,
        ...(agent === undefined ? {} : { agentId: agent }),
        ...(parent === undefined ? {} : { parentSessionKey: parent }),
        ...(visibility === undefined ? {} : { visibility }),
        ...(sandboxed === undefined ? {} : { sandboxed }),
        ...(tokenTtl === undefined ? {} : { tokenTtlMs: tokenTtl }),
        ...(execRules.length === 0 ? {} : { execRules }),
      };
      setExitCode(await createSession(body, flags));
    });
  sessions
    .command("rotate-token")
    .summary("issue a new token and end the session's other tokens")
    .description(
      "Issue a new token for a session, and print it. The session's other tokens end at once, or after --grace. Tokens of its runs stay valid until their runs end.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .addOption(
      new Option("--grace <duration>", "how long the other tokens stay valid")
        .argParser(asOptionParser(parseDuration))
        .default(0, "they end at once"),
    )
    .option(
      "--token-ttl <duration>",
      "the new token expires after this time, such as 8h or 30d",
      asOptionParser(parseDuration),
    )
    .option("--json", "print session and token as JSON")
    .action(async (wanted: string, { grace, tokenTtl, ...flags }: RotateFlags) => {
      const { rotateSessionToken } = await import("./create-list-close.js");
      const ttl = tokenTtl === undefined ? {} : { tokenTtlMs: tokenTtl };
      setExitCode(await rotateSessionToken(wanted, { graceMs: grace, ...ttl }, flags));
    });
  sessions
    .command("list", { isDefault: true })
    .summary("list open sessions, newest first")
    .description("List the sessions that the requester may see, newest first. Read-only.")
    .option("-a, --all", "also list closed sessions")
    .option("--limit <n>", "list at most n sessions", positiveIntegerUpTo(1_000), 100)
    .addOption(visibilityOption())
    .option("--json", "print a JSON array of records")
    .action(lazyAction(setExitCode, () => import("./create-list-close.js"), "printSessions"));
  sessions
    .command("status")
    .summary("show a session: its runs, turn, queue and messages")
    .description(
      "Show a session: its owner, its runs, its agent's turn, queue and permission requests, and the number of its messages. Read-only.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .addOption(visibilityOption())
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./create-list-close.js"), "showSession"));
  sessions
    .command("history")
    .summary("print the messages, turns and runs of a session")
    .description("Print the newest messages, turns and runs of a session, in order. Read-only.")
    .argument("<session>", SESSION_ARGUMENT)
    .option("--limit <n>", "print at most n entries", positiveIntegerUpTo(1_000), 100)
    .option("--before <n>", "entries before this number", parsePositiveInteger)
    .addOption(visibilityOption())
    .option("--json", "print session, messages, turns and runs as JSON")
    .action(lazyAction(setExitCode, () => import("./messages.js"), "showSessionHistory"));
  sessions
    .command("inbox")
    .summary("print messages that wait for a session; --take acknowledges them")
    .description(
      "Print the messages and task notifications that wait for a session. Read-only without --take and --acknowledge.",
    )
    .argument("[session]", `${SESSION_ARGUMENT}; default with a session's token: its own`)
    .option("--take", "acknowledge the messages after they are printed")
    .option(
      "--acknowledge <message>",
      "acknowledge a message that was read before (repeatable)",
      collectValues,
    )
    .option(
      "--limit <n>",
      "print at most the oldest n messages",
      positiveIntegerUpTo(defaults.inboxMessages),
      defaults.inboxMessages,
    )
    .addOption(visibilityOption())
    .option("--json", "print session and messages, or the acknowledged ids, as JSON")
    .addHelpText("after", inboxExamples)
    .action(lazyAction(setExitCode, () => import("./messages.js"), "showInbox"));
  sessions
    .command("send")
    .summary("send a message to a session")
    .description(
      "Send a message to a session. An ACP agent gets it as a prompt or with its next turn; other sessions read it from their inbox.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .argument("<text>", "the message")
    .addOption(
      new Option(
        "--deliver <when>",
        "when an ACP agent gets it: as a prompt of its own, or with the next turn",
      )
        .choices(MESSAGE_DELIVERIES)
        .default("wake"),
    )
    .addOption(visibilityOption())
    .option("--json", "print the message as JSON")
    .action(lazyAction(setExitCode, () => import("./messages.js"), "sendSessionMessage"));
  sessions
    .command("close")
    .alias("end")
    .summary("close a session; its runs continue, unless --tree is given")
    .description(
      "Close a session. Its tokens end and its approvals expire. The sessions below it and its runs continue and are listed; --tree ends them too.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .option("--reason <text>", "record this reason for the close")
    .option("--tree", "also close the sessions below it, and stop their runs, but not services")
    .option("--json", "print what was done as JSON")
    .addHelpText(
      "after",
      "\nExit status: 0 closed, 1 it was closed before, 3 with --tree: something is left.\n",
    )
    .action(lazyAction(setExitCode, () => import("./create-list-close.js"), "closeSessionCommand"));
}
