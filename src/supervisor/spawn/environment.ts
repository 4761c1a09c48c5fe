import { BadInput } from "../../errors.js";

/**
 * Variables that make a dynamic loader or an interpreter run code that the command line does not show: a caller that may
 * set them controls the run, whatever its argv is.
 *
 * PATH and variables that configure which program another one starts (EDITOR, PAGER, GIT_SSH_COMMAND, CC) are not
 * included: that is their documented purpose.
 */
const INJECTION_NAMES: ReadonlySet<string> = new Set(
  [
    // Loaders and modules of the C library
    "GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH LIBPATH SHLIB_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES",
    // Shells
    "BASH_ENV ENV IFS PS4 SHELLOPTS BASHOPTS PROMPT_COMMAND ZDOTDIR FPATH",
    // Node and its relatives
    "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE BUN_OPTIONS NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_SCRIPT_SHELL",
    // Python
    "PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT PYTHONUSERBASE PYTHONEXECUTABLE",
    "PYTHONPLATLIBDIR",
    // Perl, Ruby, PHP, Tcl, R
    "PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB PHPRC PHP_INI_SCAN_DIR TCLLIBPATH R_PROFILE R_PROFILE_USER",
    // Java, .NET, Erlang
    "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS ERL_LIBS",
  ].flatMap((names) => names.split(" ")),
);

/** BASH_FUNC_: exported shell functions, whose value is code. LUA_INIT: also LUA_INIT_5_4 and the like. */
const INJECTION_PREFIXES: readonly string[] = [
  ..."LD_ DYLD_ _RLD BASH_FUNC_ LUA_INIT LUA_PATH LUA_CPATH".split(" "),
  ..."CORECLR_PROFILER COR_PROFILER ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS".split(" "),
];

export function isInjectionVariable(name: string): boolean {
  // npm ignores the case of its variables, and Windows of all variables.
  const upper = name.toUpperCase();
  return INJECTION_NAMES.has(upper) || INJECTION_PREFIXES.some((prefix) => upper.startsWith(prefix));
}

/** Environment variables that mark the processes of a run. They are hints, not credentials. */
interface RunMarkers {
  readonly leaseId: string;
  readonly instanceId: string;
  readonly runId: string;
  readonly sessionKey: string | null;
}

export interface EnvironmentRequest {
  /** The caller's environment. It is not checked, because the caller runs with it already. */
  readonly base: Readonly<Record<string, string | undefined>>;
  /** Variables of `base` that are left out. */
  readonly withhold: readonly string[];
  readonly set: Readonly<Record<string, string>>;
  /** Start from nothing instead of from `base`. */
  readonly clear: boolean;
  /** Injection variables that may be set, by exact name. */
  readonly allow: readonly string[];
  readonly markers: RunMarkers;
}

const MARKER_NAMES = [
  "HOLDFAST_LEASE_ID",
  "HOLDFAST_GATEWAY_INSTANCE_ID",
  "HOLDFAST_RUN_ID",
  "HOLDFAST_SESSION_KEY",
] as const;

/** HOLDFAST_ variables that a run inherits. All others may be markers of an outer run, also of a newer version. */
const INHERITABLE_SETTINGS: ReadonlySet<string> = new Set([
  "HOLDFAST_HOME",
  "HOLDFAST_ANCHOR",
  "HOLDFAST_ANCHOR_WEAKEN",
  "HOLDFAST_DEBUG",
  "HOLDFAST_IN_PROCESS",
]);

/** The name by which two variables are the same one: on Windows, names have no case. */
export function variableKey(name: string, platform: NodeJS.Platform = process.platform): string {
  return platform === "win32" ? name.toUpperCase() : name;
}

/** True if a run may inherit this variable from the environment of a gateway or a caller. */
export function isInheritable(name: string, platform: NodeJS.Platform = process.platform): boolean {
  const key = variableKey(name, platform);
  return !key.startsWith("HOLDFAST_") || INHERITABLE_SETTINGS.has(key);
}

/** The complete environment of a run's leader. Refuses variables that a caller must not set. */
export function buildEnvironment(
  request: EnvironmentRequest,
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  // No prototype: a variable may be called `__proto__`.
  const env = Object.create(null) as Record<string, string>;
  const withheld = new Set(request.withhold.map((name) => variableKey(name, platform)));
  for (const [name, value] of Object.entries(request.base))
    if (
      value !== undefined &&
      !withheld.has(variableKey(name, platform)) &&
      isInheritable(name, platform) &&
      (!request.clear || isIndispensable(name, platform))
    )
      env[name] = value;
  checkVariables(request.set, request.allow, platform);
  const assign = (name: string, value: string): void => {
    if (platform === "win32") removeOtherCase(env, name);
    env[name] = value;
  };
  for (const [name, value] of Object.entries(request.set)) assign(name, value);
  assign("HOLDFAST_LEASE_ID", request.markers.leaseId);
  assign("HOLDFAST_GATEWAY_INSTANCE_ID", request.markers.instanceId);
  assign("HOLDFAST_RUN_ID", request.markers.runId);
  if (request.markers.sessionKey !== null) assign("HOLDFAST_SESSION_KEY", request.markers.sessionKey);
  return env;
}

/** Without these, libraries of Windows do not load. */
const INDISPENSABLE_ON_WINDOWS: ReadonlySet<string> = new Set(["SYSTEMROOT", "SYSTEMDRIVE", "WINDIR"]);

function isIndispensable(name: string, platform: NodeJS.Platform): boolean {
  return platform === "win32" && INDISPENSABLE_ON_WINDOWS.has(name.toUpperCase());
}

/** `Path` and `PATH` are one variable on Windows. */
function removeOtherCase(env: Record<string, string>, name: string): void {
  const upper = name.toUpperCase();
  for (const other of Object.keys(env)) if (other.toUpperCase() === upper) delete env[other];
}

/** Throws BadInput for a variable that a caller must not set. */
export function checkVariables(
  set: Readonly<Record<string, string>>,
  allow: readonly string[],
  platform: NodeJS.Platform = process.platform,
): void {
  for (const [name, value] of Object.entries(set)) checkVariable(name, value, allow, platform);
}

function checkVariable(
  name: string,
  value: string,
  allow: readonly string[],
  platform: NodeJS.Platform,
): void {
  if (name === "") throw new BadInput("env", "an environment variable needs a name");
  if (name.includes("=") || name.includes("\0"))
    throw new BadInput("env", `${JSON.stringify(name)} cannot be the name of an environment variable`);
  if (typeof value !== "string" || value.includes("\0"))
    throw new BadInput("env", `the value of ${name} must be text without NUL`);
  if (MARKER_NAMES.some((marker) => marker === variableKey(name, platform)))
    throw new BadInput("env", `${name} is set by Holdfast on every run and cannot be chosen`);
  if (isInjectionVariable(name) && !allow.includes(name))
    throw new BadInput(
      "env",
      `${name} can make programs load other code; it is refused unless allowed by name (--allow-env ${name}; allowEnv in a request)`,
    );
}
