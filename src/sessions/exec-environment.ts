import { isInheritable } from "../supervisor/spawn/environment.js";
import { isSecretName } from "../text/redact.js";

type Variables = Readonly<Record<string, string | undefined>>;

/** A name without a path: a locale or terminal type given by a path would be loaded from that file. */
const PLAIN_VALUE = /^[\w.@:+-]*$/;
/** `Europe/Berlin`, `CET-1CEST,M3.5.0,M10.5.0/3`; no absolute path, no `:path`, nothing above the zone directory. */
const TIME_ZONE = /^(?![/:])(?!.*\.\.)[\w.,/<>+:-]*$/;
const NUMBER = /^\d{0,6}$/;
const SWITCH = /^[\w-]*$/;

/**
 * Variables that a judged command gets from its caller, with their permitted values. Each selects how text is displayed;
 * none names a file or a program, or contains options of one. HOME is not included: files there configure programs.
 */
const PASSED_VARIABLES: ReadonlyMap<string, RegExp> = new Map([
  ["LANG", PLAIN_VALUE],
  ["LANGUAGE", PLAIN_VALUE],
  ["TZ", TIME_ZONE],
  ["TERM", PLAIN_VALUE],
  ["COLORTERM", SWITCH],
  ["COLUMNS", NUMBER],
  ["LINES", NUMBER],
  ["NO_COLOR", SWITCH],
  ["FORCE_COLOR", SWITCH],
  ["CLICOLOR", SWITCH],
  ["CLICOLOR_FORCE", SWITCH],
]);
/** LC_ALL, LC_TIME, … */
const LOCALE_NAME = /^LC_[A-Z]+$/;

/** Variables of the gateway's own environment that the run of a session starts with, besides those above. */
const OWN_VARIABLES: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TMPDIR",
  "XDG_CACHE_HOME",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "XDG_RUNTIME_DIR",
  "XDG_STATE_HOME",
]);

/** The same on Windows, where programs find their directories through the environment. */
const OWN_WINDOWS_VARIABLES: ReadonlySet<string> = new Set([
  ...["PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "OS", "TEMP", "TMP"],
  ...["USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA"],
  ...["ALLUSERSPROFILE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432"],
  ...["COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432"],
  ...["NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "PROCESSOR_IDENTIFIER"],
]);

/**
 * Variables in a caller's environment that are left out without a refusal: shells and agents set them for themselves, and
 * the run gets its own. So are those of Holdfast, all of which begin with HOLDFAST_.
 */
const CALLER_ONLY_VARIABLES: ReadonlySet<string> = new Set(["PWD", "OLDPWD", "SHLVL", "_", "TMPDIR"]);

/**
 * The environment of a session's run whose caller gives none. It is an allowlist, so that no secret of the gateway
 * reaches the run. `pass`: variables that the config and the agent's entry add.
 */
export function cleanEnvironment(
  pass: readonly string[] = [],
  own: Variables = process.env,
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  const isOwn = (name: string): boolean =>
    platform === "win32" ? OWN_WINDOWS_VARIABLES.has(name.toUpperCase()) : OWN_VARIABLES.has(name);
  const isKept = (name: string): boolean =>
    isOwn(name) ||
    PASSED_VARIABLES.has(name) ||
    LOCALE_NAME.test(name) ||
    pass.includes(name) ||
    (name.startsWith("HOLDFAST_") && isInheritable(name));
  return Object.fromEntries(
    Object.entries(own).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && isKept(entry[0]),
    ),
  );
}

export interface RequestedEnvironment {
  /** Variables that the run always has; the caller whose command is judged has set none of them. */
  readonly base: Readonly<Record<string, string>>;
  /** The caller's whole environment. */
  readonly inherited?: Variables | undefined;
  /** Variables that the caller sets for this command. */
  readonly set: Variables;
  readonly pass: readonly string[];
}

interface EvaluatedEnvironment {
  /** The whole environment, including variables that are not listed. */
  readonly environment: Readonly<Record<string, string>>;
  /** Sorted names of variables that the caller changes and that are not listed. */
  readonly unlisted: readonly string[];
}

/** The environment of a judged command, and which of its variables only the caller has set. */
export function evaluateEnvironment(
  { base, inherited = {}, set, pass }: RequestedEnvironment,
  own: Variables = process.env,
): EvaluatedEnvironment {
  const environment = { ...base };
  const unlisted = new Set<string>();
  const inheritable = Object.entries(inherited).filter(
    ([name]) => !CALLER_ONLY_VARIABLES.has(name) && !name.startsWith("HOLDFAST_"),
  );
  for (const [name, value] of [...inheritable, ...Object.entries(set)]) {
    if (value === undefined) continue;
    const isKnown = base[name] === value || isListed(name, value, pass) || isGatewaysValue(name, value, own);
    if (isKnown) unlisted.delete(name);
    else unlisted.add(name);
    environment[name] = value;
  }
  return { environment, unlisted: [...unlisted].sort() };
}

function isListed(name: string, value: string, pass: readonly string[]): boolean {
  if (pass.includes(name)) return true;
  return (LOCALE_NAME.test(name) ? PLAIN_VALUE : PASSED_VARIABLES.get(name))?.test(value) ?? false;
}

/**
 * True if the gateway has the same value, so that the operator has chosen it. False for secrets: otherwise the answer
 * would reveal whether a guessed secret is right.
 */
function isGatewaysValue(name: string, value: string | undefined, own: Variables): boolean {
  return Object.hasOwn(own, name) && own[name] === value && !isSecretName(name);
}

/** Names for a message: few, short, and without control characters. */
export function formatVariableNames(names: readonly string[]): string {
  const shown = names
    .slice(0, 20)
    .map((name) =>
      /^\w{1,64}$/.test(name) ? name : JSON.stringify(name.slice(0, 64)).replaceAll(/[^ -~]/g, "?"),
    );
  return names.length > 20 ? `${shown.join(", ")} and ${names.length - 20} more` : shown.join(", ");
}
