import { type ChildProcess, spawn } from "node:child_process";
import { defaults } from "../../defaults.js";
import { AnchorUnusable } from "../../errors.js";
import { errnoCode, errorMessage } from "../../home/errno.js";
import { asBoolean, asNullable, asObject, asString, parseJson } from "../../text/parse-json.js";

/** Longer than any ready line; a process that writes more is not the launcher. */
const MAX_READY_LINE = 64 * 1024;

/** Variables that tests pass to the binary: weaker tiers, and options of the sanitizers. */
const PASSED_VARIABLES = ["HOLDFAST_ANCHOR_WEAKEN", "ASAN_OPTIONS", "UBSAN_OPTIONS"];

/** The anchor binary needs nothing else from the environment, and cannot leak what it does not get into a run. */
export function anchorEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(
    PASSED_VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])),
  );
}

/** Starts a launcher in its own session and returns when it listens. The launcher outlives this process. */
export async function startLauncher(
  anchorPath: string,
  instanceDir: string,
  instanceId: string,
): Promise<void> {
  const child = spawn(anchorPath, ["launch", "--dir", instanceDir, "--instance", instanceId], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
    env: anchorEnvironment(),
    // The caller's directory may be on a file system that is to be unmounted.
    cwd: "/",
  });
  try {
    const line = await readReadyLine(child);
    const parsed = parseJson(line, (value) => {
      const object = asObject(value);
      return { ready: asBoolean(object["ready"]), message: asNullable(asString, object["message"]) };
    });
    if (parsed === null) throw new Error(`it wrote ${JSON.stringify(line.slice(0, 200))}`);
    if (!parsed.ready) throw new Error(parsed.message ?? "it is not ready");
  } catch (cause) {
    // The child is not reaped yet, so its pid is not reused. A launcher that is not ready holds no runs.
    child.kill("SIGKILL");
    throw new AnchorUnusable(anchorPath, describeStartError(anchorPath, cause), { cause });
  } finally {
    child.stdout?.destroy();
    child.unref();
  }
}

function readReadyLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const limit = defaults.launcherReadyMs;
    const timer = setTimeout(() => reject(new Error(`it was not ready within ${limit} ms`)), limit);
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      act();
    };
    child.on("error", (error) => settle(() => reject(error)));
    child.on("close", (code, signal) => {
      settle(() => reject(new Error(`it ended (${signal ?? `exit ${code}`}) before it was ready`)));
    });
    child.stdout?.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      const end = text.indexOf("\n");
      if (end >= 0) settle(() => resolve(text.slice(0, end)));
      else if (text.length > MAX_READY_LINE)
        settle(() => reject(new Error("it did not report that it is ready")));
    });
  });
}

function describeStartError(anchorPath: string, cause: unknown): string {
  const code = errnoCode(cause);
  if (code === "EACCES")
    return `${anchorPath} may not be executed; no run can be started. Check its mode and that its file system is not mounted noexec`;
  if (code === "ENOENT")
    return `${anchorPath} is gone; no run can be started. Restart the supervisor to install it again`;
  if (code === "ENOEXEC")
    return `${anchorPath} was not built for this machine; no run can be started. Build it here with scripts/build-anchor.mjs`;
  return `the launcher ${anchorPath} could not be started: ${errorMessage(cause)}. No run was started`;
}
