// An upgrade under live runs, a service and a turn of an agent, from the packages in /old to those in /new; then back.
// Executed inside a clean root by scripts/release/upgrade-live.mjs. Arguments: the versions.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { execute, expectEqual, inOrder, start } from "./steps.mjs";

const [from = "", to = ""] = process.argv.slice(2);
const STORE = "/root/.local/state/holdfast/store.sqlite";
const holdfast = (...args) => execute(["holdfast", ...args]).stdout;
const LINES = Array.from({ length: 100 }, (_, index) => `line ${index + 1}\n`).join("");
const counter = (code) => [
  ...["sh", "-c"],
  `i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo "line $i"; sleep 0.05; done; until [ -e /tmp/go ]; do sleep 0.1; done; echo end; exit ${code}`,
];

const runs = {};
let foreground;
let turn;
let service;

function install(directory, version) {
  const tarballs = readdirSync(directory).filter((name) =>
    /^holdfast-(\d|anchor-linux-x64-).*\.tgz$/.test(name),
  );
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  execute(["npm", "install", "--global", ...quiet, ...tarballs.map((name) => `${directory}/${name}`)]);
  expectEqual("the version", holdfast("--version").trim(), version);
}

async function until(what, holds) {
  for (let tries = 0; tries < 600; tries++) {
    if (holds()) return;
    await setTimeout(100);
  }
  throw new Error(`${what}: not within a minute`);
}

/** Pid and start time of the service's first process. */
function serviceProcess() {
  const pid = readFileSync("/tmp/service-pid", "utf8").trim();
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
  return `${pid} ${fields[19]}`;
}

function ticks() {
  return readFileSync("/tmp/ticks", "utf8").length;
}

await inOrder([
  [`install ${from}`, () => install("/old", from)],
  [
    `under ${from}: a foreground run, a detached run, a terminal, a service, a turn`,
    async () => {
      runs.detached = holdfast("run", "--detach", "--", ...counter(5)).trim();
      runs.terminal = holdfast("run", "--detach", "--pty", "--", ...counter(4)).trim();
      const tick = "echo $$ > /tmp/service-pid; while :; do printf . >> /tmp/ticks; sleep 0.2; done";
      runs.service = holdfast("run", "--service", "--", "sh", "-c", tick).trim();
      foreground = start(["holdfast", "run", "--no-pty", "--", ...counter(7)]);
      const agent = ["--agent-command", "node /driver/gated-agent.mjs", "--name", "site"];
      turn = start(["holdfast", "acp", "spawn", ...agent, "wait"]);
      await until("the foreground run prints", () => foreground.output.stdout.includes("line 3\n"));
      await until("the agent answers", () => turn.output.stdout.includes("first half"));
      await until("the service works", () => existsSync("/tmp/ticks"));
      service = serviceProcess();
    },
  ],
  [`install ${to} over it`, () => install("/new", to)],
  [
    "`holdfast gateway restart`",
    () => {
      const printed = holdfast("gateway", "restart");
      expectEqual("the new gateway is named", printed.includes(` ${to}, pid`), true);
      return /runs: [^\n]*/.exec(printed)?.[0];
    },
  ],
  [
    "the detached run: every line once, its exit code",
    () => {
      writeFileSync("/tmp/go", "");
      expectEqual("its exit code", holdfast("wait", runs.detached), "5\n");
      expectEqual("its output", holdfast("logs", runs.detached), `${LINES}end\n`);
    },
  ],
  [
    "the run on a terminal",
    () => {
      expectEqual("its exit code", holdfast("wait", runs.terminal), "4\n");
      expectEqual("its output", holdfast("logs", runs.terminal).replaceAll("\r", ""), `${LINES}end\n`);
    },
  ],
  [
    `the foreground run, whose caller is still ${from}`,
    async () => {
      const { code, stdout, stderr } = await foreground.ended;
      expectEqual("output and exit code", [stdout, code], [`${LINES}end\n`, 7]);
      return stderr.trim().replaceAll("\n", "; ");
    },
  ],
  [
    `the turn, whose caller is still ${from}`,
    async () => {
      const { code, stdout, stderr } = await turn.ended;
      if (code !== 0) throw new Error(`status ${code}\n${stdout}${stderr}`);
      expectEqual("the answer", stdout.includes("first half, second half"), true);
    },
  ],
  [
    "the session answers another prompt",
    () =>
      expectEqual(
        "it",
        holdfast("acp", "prompt", "site", "--format", "quiet", "more"),
        "first half, second half\n",
      ),
  ],
  [
    "the service: the same process, still working; then it is stopped",
    async () => {
      expectEqual("its process", serviceProcess(), service);
      const before = ticks();
      await until("the service works", () => ticks() > before);
      holdfast("stop", runs.service);
    },
  ],
  [
    "new work; a restart while nothing runs",
    () => {
      holdfast("acp", "close", "site");
      expectEqual("the output", holdfast("run", "--", "echo", "new"), "new\n");
      holdfast("gateway", "restart");
      expectEqual("the output", holdfast("run", "--", "echo", "newer"), "newer\n");
      holdfast("gateway", "stop");
    },
  ],
  [
    `back to ${from}, which knows an older schema that may use the store`,
    () => {
      install("/old", from);
      expectEqual("the output", holdfast("run", "--", "echo", "old"), "old\n");
      expectEqual("the record", holdfast("logs", runs.detached), `${LINES}end\n`);
      holdfast("gateway", "stop");
    },
  ],
  [
    "a store that needs a later build is refused, and is not changed",
    () => {
      const db = new DatabaseSync(STORE);
      const { id } = db.prepare("select max(id) as id from holdfast_migrations").get();
      db.prepare("update holdfast_migrations set min_compatible = id where id = ?").run(id);
      const count = () => db.prepare("select count(*) as count from runs").get().count;
      const before = count();
      for (const args of [["run", "--", "true"], ["ps"], ["gateway", "start"]]) {
        const { stderr } = execute(["holdfast", ...args], { allowed: [125] });
        expectEqual(
          `${args.join(" ")} names the schemas`,
          new RegExp(`schema ${id}, this one knows \\d+`).test(stderr),
          true,
        );
      }
      expectEqual("the records", count(), before);
      db.close();
    },
  ],
]);
