import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";

/** Starts an unrelated process of the same user, with the command line of a run. It must survive the test. */
export function plantBystander(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): ChildProcess {
  const bystander = spawn(command, args, { stdio: "ignore", detached: true, env });
  onTestFinished(async () => {
    const survived = bystander.exitCode === null && bystander.signalCode === null;
    const left = once(bystander, "exit");
    bystander.kill("SIGKILL");
    if (survived) await left;
    else throw new Error("the bystander did not survive");
  });
  return bystander;
}
