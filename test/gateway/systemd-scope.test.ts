import { spawnSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../support/temporary-directory.js";

/** Replaces its own program, as an upgrade of Node does, and starts it anew. */
const script = `
  const { spawn } = await import("node:child_process");
  const { renameSync } = await import("node:fs");
  const { awaitScope } = await import(process.argv[1]);
  renameSync(process.execPath + ".new", process.execPath);
  const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60_000)"], { stdio: "ignore" });
  const why = await awaitScope({ pid: child.pid, ended: () => null });
  child.kill("SIGKILL");
  console.log(why);
`;

test.skipIf(process.platform !== "linux")(
  "a gateway is known to run in its scope although Node was upgraded since the caller started",
  { timeout: 30_000 },
  async () => {
    await using directory = await temporaryDirectory();
    const node = join(directory.path, "node");
    // Two files: a rename to a link of the same file does nothing.
    for (const path of [node, `${node}.new`]) copyFileSync(process.execPath, path);
    const module = resolve("dist/gateway/systemd-scope.js");
    const { stdout, stderr } = spawnSync(node, ["--input-type=module", "-e", script, module], {
      encoding: "utf8",
    });
    expect({ stdout, stderr }).toEqual({ stdout: "null\n", stderr: "" });
  },
);
