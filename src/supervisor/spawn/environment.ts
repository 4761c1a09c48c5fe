import { BadInput } from "../../errors.js";
import { isInjectionVariable } from "../injection-variables.js";

/** What a process of a run can be recognised by. Hints, never credentials. */
export interface RunMarkers {
  readonly leaseId: string;
  readonly instanceId: string;
  readonly runId: string;
  readonly sessionKey: string | null;
}

export interface EnvironmentRequest {
  /** The caller's environment. What it holds passes: the caller runs with it already. */
  readonly base: Readonly<Record<string, string | undefined>>;
  readonly set: Readonly<Record<string, string>>;
  /** Start from nothing instead of from `base`. */
  readonly clear: boolean;
  /** Injection variables that may be set all the same, by exact name. */
  readonly allow: readonly string[];
  readonly markers: RunMarkers;
}

const MARKER_NAMES = [
  "HOLDFAST_LEASE_ID",
  "HOLDFAST_GATEWAY_INSTANCE_ID",
  "HOLDFAST_RUN_ID",
  "HOLDFAST_SESSION_KEY",
] as const;

/** A run inside a run must not carry the outer one's marks, also not those of a newer version. These are none. */
const INHERITABLE_SETTINGS: ReadonlySet<string> = new Set([
  "HOLDFAST_HOME",
  "HOLDFAST_ANCHOR",
  "HOLDFAST_ANCHOR_WEAKEN",
  "HOLDFAST_DEBUG",
  "HOLDFAST_IN_PROCESS",
]);

/** Whether a run may inherit this variable from the environment of a gateway or a caller. */
export function isInheritable(name: string): boolean {
  return !name.startsWith("HOLDFAST_") || INHERITABLE_SETTINGS.has(name);
}

/** The complete environment of a run's first process. Refuses what a caller must not set; stores nothing. */
export function buildEnvironment(request: EnvironmentRequest): Record<string, string> {
  // No prototype: a variable may be called `__proto__`.
  const env = Object.create(null) as Record<string, string>;
  if (!request.clear) inheritVariables(env, request.base);
  checkVariables(request.set, request.allow);
  for (const [name, value] of Object.entries(request.set)) env[name] = value;
  env["HOLDFAST_LEASE_ID"] = request.markers.leaseId;
  env["HOLDFAST_GATEWAY_INSTANCE_ID"] = request.markers.instanceId;
  env["HOLDFAST_RUN_ID"] = request.markers.runId;
  if (request.markers.sessionKey !== null) env["HOLDFAST_SESSION_KEY"] = request.markers.sessionKey;
  return env;
}

function inheritVariables(env: Record<string, string>, base: EnvironmentRequest["base"]): void {
  for (const [name, value] of Object.entries(base)) {
    if (value !== undefined && isInheritable(name)) env[name] = value;
  }
}

/** Whether a caller may set them; rejects with BadInput. */
export function checkVariables(set: Readonly<Record<string, string>>, allow: readonly string[]): void {
  for (const [name, value] of Object.entries(set)) checkVariable(name, value, allow);
}

function checkVariable(name: string, value: string, allow: readonly string[]): void {
  if (name === "") throw new BadInput("env", "an environment variable needs a name");
  if (name.includes("=") || name.includes("\0"))
    throw new BadInput("env", `${JSON.stringify(name)} cannot be the name of an environment variable`);
  if (typeof value !== "string" || value.includes("\0"))
    throw new BadInput("env", `the value of ${name} must be text without NUL`);
  if (MARKER_NAMES.some((marker) => marker === name))
    throw new BadInput("env", `${name} is set by Holdfast on every run and cannot be chosen`);
  if (isInjectionVariable(name) && !allow.includes(name))
    throw new BadInput(
      "env",
      `${name} makes programs load code they were not asked to; it is refused unless allowed by name (--allow-env ${name}; allowEnv in a request)`,
    );
}
