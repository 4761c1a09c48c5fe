import { type Command, Option } from "commander";
import { defaults } from "../../defaults.js";
import { MESSAGE_DELIVERIES, VISIBILITIES } from "../../model/enums.js";
import type { ExecEffect, ExecRule, Visibility } from "../../model/session.js";
import {
  asOptionParser,
  collectValues,
  parseExecRule,
  parsePositiveInteger,
  positiveIntegerUpTo,
  type SetExitCode,
} from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import type { HistoryFlags } from "./history.js";
import type { InboxFlags } from "./inbox.js";
import type { ListSessionsFlags, SendMessageFlags, SessionFlags } from "./sessions.js";

const createExamples = `
A session is what a token acts for: it sees and steers its own runs, and what
its rules allow it may execute. The first rule that matches decides, in the
order they are written; what no rule matches is asked (holdfast approvals).

A rule names a program by its name on the gateway's PATH, by its absolute path, or
by a directory that ends with /, followed by arguments: * matches any one word,
... matches the rest. "*" alone matches every program. An allowed command has the
gateway's clean environment; variables that are not listed are refused, or named in
the approval question. Many programs can run other programs (git, make, tar, find,
less): docs/reference/exec-rules.md says which programs are safe to allow.

Examples:
  holdfast sessions create --key chat-7 --allow "ls ..." --allow "wc ..." --deny "*"
  HOLDFAST_TOKEN=$(holdfast sessions create --key ci --ask "*" --json | jq -r .token)
`;

const inboxExamples = `
An agent over ACP is told what waits at its turns. A session without one (a
script, an agent that is run some other way) reads it here, and says that it
has: only then a task that was to be told to it counts as delivered. Only the
session itself and the operator acknowledge; what a turn is bringing to an
agent at this moment is not shown.

--take is one command. Whoever must not lose anything, whatever is killed,
reads first, and acknowledges by id when it has seen to it.

Examples:
  holdfast sessions inbox chat-7
  HOLDFAST_TOKEN=$token holdfast sessions inbox --take
  holdfast sessions inbox --json | jq -r '.messages[].id'
  holdfast sessions inbox --acknowledge msg_4k2m8s1x9q0z
`;

interface CreateFlags {
  readonly key: string;
  readonly agent?: string;
  readonly parent?: string;
  readonly visibility?: Visibility;
  readonly sandboxed?: true;
  readonly tokenTtl?: number;
  readonly json?: true;
}

const SESSION_ARGUMENT = "its id, or the key that an open one has";

/** For a session that asks: less than its own level shows. */
function visibilityOption(): Option {
  return new Option("--visibility <level>", "with a session's token: look no further than this").choices(
    VISIBILITIES,
  );
}

export function addSessionsCommand(program: Command, setExitCode: SetExitCode): void {
  const sessions = program
    .command("sessions")
    .summary("who may do what, and what was said: create, list, history, inbox, send, end")
    .description("Sessions: what a token acts for.");
  // In the order they are written, whichever of the three each is.
  const rules: ExecRule[] = [];
  const rule = (effect: ExecEffect) => (text: string) =>
    void rules.push(asOptionParser((words) => parseExecRule(effect, words))(text));
  sessions
    .command("create")
    .summary("open one; prints its id and a token, once")
    .description(
      "Open a session, or find the open one of that key. Prints its id and a token that acts for it.",
    )
    .requiredOption("--key <key>", "what it is called; one open session has a key at a time")
    .option("--agent <id>", "the agent whose session it is")
    .option("--parent <key>", "the open session that it belongs to")
    .addOption(new Option("--visibility <level>", "what it sees of others").choices(VISIBILITIES))
    .option("--sandboxed", "it sees no more than its own tree, whatever it is given")
    .option("--allow <rule>", "it may execute this (repeatable)", rule("allow"))
    .option("--ask <rule>", "a person is asked each time (repeatable)", rule("ask"))
    .option("--deny <rule>", "it may not (repeatable)", rule("deny"))
    .option(
      "--token-ttl <duration>",
      "the token expires after this time, such as 8h or 30d",
      asOptionParser(parseDuration),
    )
    .option("--json", "session and token as JSON")
    .addHelpText("after", createExamples)
    .action(async ({ key, agent, parent, visibility, sandboxed, tokenTtl, json }: CreateFlags) => {
      const { createSession } = await import("./sessions.js");
      const body = {
        key,
        ...(agent === undefined ? {} : { agentId: agent }),
        ...(parent === undefined ? {} : { parentSessionKey: parent }),
        ...(visibility === undefined ? {} : { visibility }),
        ...(sandboxed === undefined ? {} : { sandboxed }),
        ...(tokenTtl === undefined ? {} : { tokenTtlMs: tokenTtl }),
        ...(rules.length === 0
          ? {}
          : {
              execRules: rules.map(({ args, ...each }) =>
                args === undefined ? each : { ...each, args: [...args] },
              ),
            }),
      };
      setExitCode(await createSession(body, json === true));
    });
  sessions
    .command("rotate-token")
    .summary("issue a new token and end the session's other tokens")
    .description(
      "Issue a new token of a session and print it once. The session's other tokens end at once, or after --grace. Tokens of its runs stay valid until their runs end.",
    )
    .argument("<session>", "its id, or the key of an open one")
    .option("--grace <duration>", "how long the other tokens stay valid", asOptionParser(parseDuration), 0)
    .option(
      "--token-ttl <duration>",
      "the new token expires after this time, such as 8h or 30d",
      asOptionParser(parseDuration),
    )
    .option("--json", "session and token as JSON")
    .action(
      async (
        wanted: string,
        {
          grace,
          tokenTtl,
          json,
        }: { readonly grace: number; readonly tokenTtl?: number; readonly json?: true },
      ) => {
        const { rotateSessionToken } = await import("./sessions.js");
        const ttl = tokenTtl === undefined ? {} : { tokenTtlMs: tokenTtl };
        setExitCode(await rotateSessionToken(wanted, { graceMs: grace, ...ttl }, json === true));
      },
    );
  sessions
    .command("list")
    .summary("those that are open, newest first")
    .description("Sessions that may be seen, newest first. Only reads.")
    .option("--all", "those that have ended, too")
    .option("--limit <n>", "at most this many", positiveIntegerUpTo(1_000), 100)
    .addOption(visibilityOption())
    .option("--json", "the rows as a JSON array")
    .action(async (flags: ListSessionsFlags) => {
      const { printSessions } = await import("./sessions.js");
      setExitCode(await printSessions(flags));
    });
  sessions
    .command("status")
    .summary("how one is: what it runs, what waits for it")
    .description(
      "How a session is: whose it is, what it runs, its agent's turn, queue and questions, how much was said in it and waits for it. Only reads.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .addOption(visibilityOption())
    .option("--json", "as JSON")
    .action(async (wanted: string, flags: SessionFlags) => {
      const { showSession } = await import("./sessions.js");
      setExitCode(await showSession(wanted, flags));
    });
  sessions
    .command("history")
    .summary("what was said in one, and what it did")
    .description(
      "What was said in a session, the turns of its agent, and what it had executed, in order: the newest of it. Only reads.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .option("--limit <n>", "at most this many", positiveIntegerUpTo(1_000), 100)
    .option("--before <n>", "those before this one, by its number", parsePositiveInteger)
    .addOption(visibilityOption())
    .option("--json", "session, messages, turns and runs as JSON")
    .action(async (wanted: string, flags: HistoryFlags) => {
      const { showSessionHistory } = await import("./history.js");
      setExitCode(await showSessionHistory(wanted, flags));
    });
  sessions
    .command("inbox")
    .summary("what waits for one; --take: have it acknowledged")
    .description(
      "What waits for a session: messages, and notices of its tasks. Only reads, without --take and --acknowledge.",
    )
    .argument("[session]", `${SESSION_ARGUMENT}; with a session's token: its own, if left out`)
    .option("--take", "acknowledge what is shown, after it was shown: it does not wait any more")
    .option("--acknowledge <message>", "acknowledge one that was read before (repeatable)", collectValues)
    .option(
      "--limit <n>",
      "at most this many, the oldest",
      positiveIntegerUpTo(defaults.inboxMessages),
      defaults.inboxMessages,
    )
    .addOption(visibilityOption())
    .option("--json", "session, messages and whether there are more as JSON; what was acknowledged")
    .addHelpText("after", inboxExamples)
    .action(async (wanted: string | undefined, flags: InboxFlags) => {
      const { showInbox } = await import("./inbox.js");
      setExitCode(await showInbox(wanted, flags));
    });
  sessions
    .command("send")
    .summary("say something to one")
    .description(
      "Say something to a session. An agent over ACP is woken by it, or told with its next turn; elsewhere it waits in the session's history.",
    )
    .argument("<session>", SESSION_ARGUMENT)
    .argument("<text>", "what to say")
    .addOption(
      new Option("--deliver <when>", "wake: as a prompt of its own; next-turn: with whatever is asked next")
        .choices(MESSAGE_DELIVERIES)
        .default("wake"),
    )
    .addOption(visibilityOption())
    .option("--json", "the message as JSON")
    .action(async (wanted: string, text: string, flags: SendMessageFlags) => {
      const { sendSessionMessage } = await import("./sessions.js");
      setExitCode(await sendSessionMessage(wanted, text, flags));
    });
  sessions
    .command("end")
    .summary("end one: its tokens are dead, its runs go on")
    .description("End a session. Its tokens are dead from here on, its questions expire, its runs go on.")
    .argument("<session>", "its id or its key")
    .option("--json", "what was done, as JSON")
    .action(async (wanted: string, { json }: { readonly json?: true }) => {
      const { closeSessionCommand } = await import("./sessions.js");
      setExitCode(await closeSessionCommand(wanted, json === true));
    });
}
