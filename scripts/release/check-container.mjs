// Executes the instructions of Dockerfile without Docker: its RUN in a clean root, then its ENTRYPOINT and CMD as PID 1 of
// namespaces of their own, as its USER. Checks the health, a run, and the end by TERM. Needs Linux on x64 and root.
//
// Usage: check-container.mjs [--packages build/packages]

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import { once } from "node:events";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  createCleanRoot,
  enterCleanRoot,
  removeCleanRoot,
  runInCleanRoot,
  whyNoCleanRoot,
} from "./clean-root.mjs";
import { expectEqual, inOrder } from "./inside/steps.mjs";

const checkout = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values: options } = parseArgs({
  options: { packages: { type: "string", default: join(checkout, "build/packages") } },
});
const why = whyNoCleanRoot();
if (why !== null) {
  console.error(`no clean root can be made: ${why}`);
  process.exit(2);
}
const text = readFileSync(join(checkout, "Dockerfile"), "utf8").replaceAll(/\\\n/g, " ");
const instruction = (name) => new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1] ?? "";
const words = (name) => JSON.parse(instruction(name));
const [, major = ""] = /^(\d+)$/.exec(instruction("ARG").replace("NODE=", "")) ?? [];
const environment = Object.fromEntries([instruction("ENV").split("=")]);
const probe = JSON.parse(instruction("HEALTHCHECK").replace(/.* CMD /, ""));

const root = createCleanRoot(major, ["ln", "rm", "install", "chmod"]);
let container;
let first;

/** As `docker exec`. */
function exec(argv, allowed = 0) {
  // Until it has changed its root, the command would run in that of this machine.
  if (readlinkSync(`/proc/${first}/root`) === "/") throw new Error("the container has not started");
  const names = ["--target", String(first), "--mount", "--pid", "--ipc", "--root"];
  const user = ["--setuid", "1000", "--setgid", "1000"];
  const env = Object.entries({ ...environment, HOME: "/home/node" }).map(
    ([name, value]) => `${name}=${value}`,
  );
  const { status, stdout, stderr } = spawnSync(
    "nsenter",
    [...names, ...user, "/bin/env", ...env, "sh", "-c", 'cd /work && exec "$@"', "sh", ...argv],
    {
      env: { PATH: `/usr/local/bin:/bin:${process.env.PATH}` },
      encoding: "utf8",
    },
  );
  if (status !== allowed) throw new Error(`${argv.join(" ")}: status ${status}\n${stdout}${stderr}`);
  return stdout;
}

function childOf(pid) {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0]);
}

try {
  const [packages, destination] = [resolve(options.packages), join(root, "tmp/packages")];
  mkdirSync(destination);
  for (const name of readdirSync(packages).filter((each) =>
    /^holdfast-(\d|anchor-linux-).*\.tgz$/.test(each),
  ))
    cpSync(join(packages, name), join(destination, name));
  console.log("| step | time | |\n|---|---|---|");
  await inOrder([
    [
      "RUN: install the packages",
      async () => {
        mkdirSync(join(root, "driver"));
        cpSync(join(checkout, "scripts/release/inside"), join(root, "driver"), { recursive: true });
        expectEqual(
          "its status",
          await runInCleanRoot(root, "/driver/run-shell.mjs", [instruction("RUN")]),
          0,
        );
      },
    ],
    [
      "ENTRYPOINT and CMD, until HEALTHCHECK succeeds",
      async () => {
        const argv = [...words("ENTRYPOINT"), ...words("CMD")];
        const enter = 'exec chroot --userspec=1000:1000 "$root" "$@"';
        container = enterCleanRoot(root, enter, argv, { ...environment, HOME: "/home/node" });
        for (let tries = 0; ; tries++) {
          await setTimeout(200);
          first = childOf(container.pid);
          try {
            exec(probe);
            break;
          } catch (error) {
            if (tries > 200) throw error;
          }
        }
        const [command] = readFileSync(`/proc/${first}/cmdline`, "utf8").split("\0");
        const [, uid] = /^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${first}/status`, "utf8")) ?? [];
        expectEqual("PID 1 and its user", [command, uid], ["holdfast-anchor", "1000"]);
      },
    ],
    [
      "`holdfast run -- id -u`",
      () => expectEqual("the user", exec(["holdfast", "run", "--", "id", "-u"]), "1000\n"),
    ],
    [
      "the tier of a run",
      () => /"tier":\s*"([^"]+)"/.exec(exec(["holdfast", "run", "--json", "--", "echo"]))?.[1],
    ],
    [
      "an orphan is reaped by PID 1",
      async () => {
        exec(["sh", "-c", "sleep 0.1 & sleep 0"]);
        await setTimeout(1000);
        const states = readFileSync(`/proc/${first}/task/${first}/children`, "utf8")
          .trim()
          .split(" ")
          .map((pid) => readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) (\w).*/s, "$1"));
        expectEqual(
          "zombies of PID 1",
          states.filter((state) => state === "Z"),
          [],
        );
      },
    ],
    [
      "TERM to PID 1: the gateway ends with 0",
      async () => {
        process.kill(first, "SIGTERM");
        const [code] = await once(container, "exit");
        expectEqual("the exit status", code, 0);
      },
    ],
  ]);
} finally {
  // Its change of user has cleared the signal that it would get with its parent. As PID 1, it takes every process along.
  if (container?.exitCode === null && first > 1) process.kill(first, "SIGKILL");
  removeCleanRoot(root);
}
