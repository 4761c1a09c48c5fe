import { z } from "zod";
import { watchdogProfiles } from "../defaults.js";
import { clientAccessSchema } from "./client-access.js";

/** Placeholders: a whole argument, or after an `=` at the end of an argument, as in `--prompt={prompt}`. */
export const PROMPT_PLACEHOLDER = "{prompt}";
export const SESSION_ID_PLACEHOLDER = "{sessionId}";
/** A new id that Holdfast chooses, for agents that do not print theirs. */
export const NEW_SESSION_ID_PLACEHOLDER = "{newSessionId}";

export const CLI_OUTPUTS = ["text", "result", "codex", "gemini", "opencode", "pi"] as const;

/** A word of a command line. */
export const argument = z
  .string()
  .min(1)
  .max(4_096)
  .refine((value) => !value.includes("\0"), "must not contain NUL");
/** Elsewhere the agent would get the placeholder itself. */
const hasNoPlaceholder = (text: string): boolean =>
  [PROMPT_PLACEHOLDER, SESSION_ID_PLACEHOLDER, NEW_SESSION_ID_PLACEHOLDER].every(
    (placeholder) => !text.includes(placeholder),
  );
const hasValidPlaceholder = (text: string): boolean =>
  hasNoPlaceholder(text.replace(/(?<=^|=)\{(?:prompt|sessionId|newSessionId)\}$/, ""));
const argv = z
  .array(
    argument.refine(
      hasValidPlaceholder,
      `${PROMPT_PLACEHOLDER}, ${SESSION_ID_PLACEHOLDER} and ${NEW_SESSION_ID_PLACEHOLDER} must be words of their own, or stand after =`,
    ),
  )
  .min(1)
  .max(256)
  .refine(([program = ""]) => hasNoPlaceholder(program), "must begin with a program");
export const anyVariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,126}$/, "must be the name of an environment variable");

/** The name of an environment variable that is not Holdfast's own. */
export const variableName = anyVariableName.refine(
  (name) => !name.startsWith("HOLDFAST_"),
  "must not be one of Holdfast's own",
);

/** How long it may be silent, from its overall timeout (see agents/one-shot-command.ts). */
const watchdog = z
  .strictObject({
    ratio: z.number().gt(0).max(1),
    minMs: z.int().min(1_000),
    maxMs: z.int().min(1_000),
  })
  .refine(({ minMs, maxMs }) => minMs <= maxMs, "minMs must not be above maxMs");

const countPlaceholder = (words: readonly string[], placeholder: string): number =>
  words.filter((each) => each === placeholder || each.endsWith(`=${placeholder}`)).length;

/** A command that takes one prompt and ends. */
const cliForm = z
  .strictObject({
    argv,
    /** The prompt replaces its placeholder. Without a placeholder it goes to stdin: then its length is unlimited, and lists of processes do not show it. */
    resumeArgv: argv.optional(),
    /** The format of its output. */
    output: z.enum(CLI_OUTPUTS).default("text"),
    watchdog: z
      .strictObject({ fresh: watchdog, resume: watchdog })
      .default({ fresh: { ...watchdogProfiles.fresh }, resume: { ...watchdogProfiles.resume } }),
  })
  .refine(
    (form) => countPlaceholder(form.argv, SESSION_ID_PLACEHOLDER) === 0,
    `${SESSION_ID_PLACEHOLDER} belongs in resumeArgv`,
  )
  .refine(
    ({ resumeArgv }) =>
      resumeArgv === undefined || countPlaceholder(resumeArgv, SESSION_ID_PLACEHOLDER) === 1,
    `resumeArgv must have ${SESSION_ID_PLACEHOLDER} once, as a word or after =`,
  )
  .refine(
    (form) =>
      countPlaceholder(form.argv, NEW_SESSION_ID_PLACEHOLDER) <= 1 &&
      countPlaceholder(form.resumeArgv ?? [], NEW_SESSION_ID_PLACEHOLDER) === 0,
    `${NEW_SESSION_ID_PLACEHOLDER} may stand once, in argv`,
  )
  .refine(
    (form) =>
      [form.argv, form.resumeArgv ?? []].every((words) => countPlaceholder(words, PROMPT_PLACEHOLDER) <= 1),
    `${PROMPT_PLACEHOLDER} may stand once`,
  );

/** The name of a table in the configuration. */
export const tableName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,40}$/, "must be a short word of a-z, 0-9, _ and -");
/** Pinned: exactly one version, and nothing that npx would parse as another kind of address. */
const npmPackage = z.strictObject({
  package: z.string().regex(/^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/, "must be the name of an npm package"),
  version: z.string().regex(/^\d+\.\d+\.\d+(?:-[\w.-]+)?$/, "must be one version, such as 1.2.3"),
});

const acpForm = z.strictObject({
  argv,
  /** The npm package that has the command, in the version that is fetched on request. */
  npm: npmPackage.optional(),
  /** Access through the gateway: none by default. The opener of a session can override it. */
  client: clientAccessSchema.optional(),
  /** A turn without output for this time fails, and its agent is ended. Default: no limit. */
  noOutputTimeoutMs: z.int().min(1_000).optional(),
});

const fields = {
  name: z.string().min(1).max(100).optional(),
  /** Speaks ACP over stdin and stdout. */
  acp: acpForm.optional(),
  cli: cliForm.optional(),
  /** In addition to the caller's environment. */
  env: z.record(variableName, argument).default({}),
  /** Variables that a session may set for the agent, and that the agent gets from the gateway's environment: API keys, proxies, … */
  passEnv: z.array(variableName).max(64).default([]),
  /** Makes either command print its version and end. */
  versionArgs: z.array(argument).max(16).default(["--version"]),
  /** How the entry was verified. */
  verified: z.string().max(500).optional(),
  /** How to install the agent. */
  install: z.string().max(500).optional(),
};
const hasForm = (entry: { readonly acp?: unknown; readonly cli?: unknown }): boolean =>
  entry.acp !== undefined || entry.cli !== undefined;
const NEEDS_COMMAND = "needs acp or cli, a command with its argv";

/** An agent, as data: in the catalogue and in the config alike. */
export const agentEntrySchema = z.strictObject({ id: tableName, ...fields }).refine(hasForm, NEEDS_COMMAND);

/** The table `[agents]` of the configuration, by id. */
export const agentTablesSchema = z.record(tableName, z.strictObject(fields).refine(hasForm, NEEDS_COMMAND));

/** The keys of such a table, and of the tables in it. */
export const agentKeys = {
  "": Object.keys(fields),
  acp: Object.keys(acpForm.shape),
  "acp.npm": Object.keys(npmPackage.shape),
  "acp.client": Object.keys(clientAccessSchema.shape),
  cli: Object.keys(cliForm.shape),
  "cli.watchdog": ["fresh", "resume"],
  "cli.watchdog.fresh": Object.keys(watchdog.shape),
  "cli.watchdog.resume": Object.keys(watchdog.shape),
} as const;

export type AgentEntry = z.output<typeof agentEntrySchema>;
export type AgentEntryInput = z.input<typeof agentEntrySchema>;
export type CliForm = NonNullable<AgentEntry["cli"]>;
export type CliOutput = (typeof CLI_OUTPUTS)[number];
