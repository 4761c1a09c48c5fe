// The steps of a stranger on a new machine: install, first run, an agent over ACP, the dashboard, the end. Executed inside
// a clean root by scripts/release/fresh-machine.mjs. Arguments: the install line of the README, and the version.

import { readdirSync, readFileSync } from "node:fs";
import { execute, expectEqual, inOrder } from "./steps.mjs";

const [line = "", version = ""] = process.argv.slice(2);
const shell = (command) => execute(["/bin/sh", "-c", command], { cwd: "/checkout" });
const holdfast = (...args) => execute(["holdfast", ...args]);

async function openDashboard() {
  const { url } = JSON.parse(holdfast("dashboard", "--json").stdout);
  const { origin, hash } = new URL(url);
  const page = await fetch(url);
  expectEqual("the status of the page", page.status, 200);
  const script = /<script[^>]* src="([^"]+)"/.exec(await page.text())?.[1] ?? "no script";
  expectEqual("the status of its script", (await fetch(new URL(script, url))).status, 200);
  const headers = { origin, "sec-fetch-site": "same-origin", "content-type": "application/json" };
  const body = JSON.stringify({ link: hash.replace("#link=", "") });
  const login = () => fetch(`${origin}/dashboard/login`, { method: "POST", headers, body });
  const first = await login();
  expectEqual("the first use of the link succeeds", first.ok, true);
  expectEqual("the second use of the link succeeds", (await login()).ok, false);
  return "the link works once";
}

/** Processes besides this one, PID 1 and zombies. */
function processesLeft() {
  const others = readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && ![1, process.pid].includes(Number(name)),
  );
  return others.flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim()].filter(
        (text) => text !== "",
      );
    } catch {
      return [];
    }
  });
}

await inOrder([
  ["the install line of the README", () => void shell(line)],
  ["`holdfast --version`", () => expectEqual("the version", holdfast("--version").stdout.trim(), version)],
  [
    "first run: `holdfast run -- echo hello`",
    () => expectEqual("its output", holdfast("run", "--", "echo", "hello").stdout, "hello\n"),
  ],
  [
    "an exit code, and a process that leaves its session",
    () => {
      const escape = ["run", "--", "sh", "-c", "setsid sleep 1000 & exit 0"];
      expectEqual("the status", execute(["holdfast", ...escape], { allowed: [120] }).status, 120);
      expectEqual(
        "the status",
        execute(["holdfast", "run", "--", "sh", "-c", "exit 7"], { allowed: [7] }).status,
        7,
      );
    },
  ],
  [
    "`holdfast doctor`",
    () => {
      const { checks } = JSON.parse(holdfast("doctor", "--json").stdout);
      expectEqual(
        "what cannot work",
        checks.filter(({ state }) => state === "bad"),
        [],
      );
    },
  ],
  [
    "an agent over ACP: two prompts, close",
    () => {
      const spawned = holdfast(
        "acp",
        "spawn",
        "--agent-command",
        "node /driver/agent.mjs",
        "--name",
        "site",
        "what is here?",
      );
      expectEqual("the answer", spawned.stdout.includes("A server, and tests for it."), true);
      const { stdout } = holdfast("acp", "prompt", "site", "--format", "quiet", "how many tests?");
      expectEqual("the answer", stdout, "Twelve, and all of them pass.\n");
      return holdfast("acp", "close", "site").stdout.trim().replace(/.*; /, "");
    },
  ],
  ["the dashboard, by its one-time link", openDashboard],
  [
    "a run through `holdfast gateway restart`",
    () => {
      const id = holdfast(
        "run",
        "--detach",
        "--",
        "sh",
        "-c",
        "echo one; sleep 5; echo two; exit 3",
      ).stdout.trim();
      holdfast("gateway", "restart");
      expectEqual("its exit code", holdfast("wait", id).stdout, "3\n");
      expectEqual("its output", holdfast("logs", id).stdout, "one\ntwo\n");
    },
  ],
  [
    "`holdfast gateway stop --runs terminate` leaves no process",
    async () => {
      holdfast("run", "--service", "--", "sleep", "1000");
      holdfast("gateway", "stop", "--runs", "terminate");
      for (let tries = 0; tries < 100 && processesLeft().length > 0; tries++)
        await new Promise((resolve) => setTimeout(resolve, 100));
      expectEqual("what is left", processesLeft(), []);
    },
  ],
  [
    "`npm uninstall -g`",
    () => {
      shell("npm uninstall -g holdfast @holdfast/anchor-linux-x64");
      expectEqual("what is left", readdirSync("/usr/local/bin").toSorted(), ["node", "npm", "npx"]);
    },
  ],
]);
