// Compares Holdfast with other process managers, in one run: submitting a command and learning its exit code, stopping a
// tree of six processes that escape, memory, and what survives a kill -9 of the manager. It downloads the others from
// npm and Debian into a temporary directory, installs nothing, and names what it cannot download. Each is measured in a
// PID namespace of its own, with which everything that it leaves ends.
//
// Usage: node bench/peers.mjs [--only <peer>[,<peer>…]] [--seconds <per measurement>] [--idle <jobs>] [--write]
//   --only    measure these again (with `none`: nothing), and show the others as saved in build/bench-peers.json
//   --write   write the tables of docs/reference/performance.md and README.md
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { describeLoad, describeMachine, today } from "./support/machine.mjs";
import { namespaceWords } from "./support/namespace.mjs";
import { programsDirectory } from "./support/programs.mjs";
import { tables, writeTables } from "./peers/tables.mjs";

/** By file name. */
const peers = {
  holdfast: "Holdfast",
  pm2: "pm2",
  supervisord: "supervisord",
  runit: "runit",
  "task-spooler": "task-spooler",
  tmux: "tmux",
  nohup: "`nohup`",
};
const acpClients = { holdfast: "Holdfast", acpx: "acpx" };
const PEER_MS = 300_000;

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    seconds: { type: "string", default: "5" },
    idle: { type: "string", default: "50" },
    write: { type: "boolean" },
  },
});
const isolated = namespaceWords();
if (isolated.length === 0) {
  console.error("no PID namespace can be made here (it needs root on Linux). Nothing was started");
  process.exit(1);
}
const only = flags.only?.split(",");
const programs = await programsDirectory();
const saved = fileURLToPath(new URL("../build/bench-peers.json", import.meta.url));
const before = only !== undefined && existsSync(saved) ? JSON.parse(readFileSync(saved, "utf8")) : {};
const { missing = {}, measured = {}, acp = {}, load = describeLoad() } = before;
try {
  for (const name of Object.keys(peers).filter((each) => only?.includes(each) ?? true))
    measured[peers[name]] = measure(peers[name], "measure-peer.mjs", [
      name,
      programs.prefix,
      flags.seconds,
      flags.idle,
    ]);
  for (const name of Object.keys(acpClients).filter((each) => only?.includes(each) ?? true))
    acp[acpClients[name]] = measure(acpClients[name], "measure-acp.mjs", [
      name,
      programs.prefix,
      flags.seconds,
    ]);
  if (!existsSync("/run/systemd/system")) missing["systemd-run"] = "this machine does not run systemd";
  else missing["systemd-run"] = "its units run outside the PID namespace of the benchmark";
  const about = { date: today(), machine: describeMachine(), load, missing, idle: flags.idle };
  mkdirSync(join(saved, ".."), { recursive: true });
  writeFileSync(saved, JSON.stringify({ missing, measured, acp, load }, null, 1));
  const shown = tables(inOrder(peers, measured), inOrder(acpClients, acp), about);
  console.log(Object.values(shown).join("\n\n"));
  if (flags.write === true) writeTables(shown);
} finally {
  await programs.dispose();
}

/** Null: it could not be measured. */
function measure(name, script, words) {
  process.stderr.write(`${name} … `);
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  const path = fileURLToPath(new URL(`peers/${script}`, import.meta.url));
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("HOLDFAST_")));
  const began = performance.now();
  const [program, ...rest] = [...isolated, process.execPath, path, ...words];
  const { stdout, stderr } = spawnSync(program, rest, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: PEER_MS,
    killSignal: "SIGKILL",
    env: { ...env, TMPDIR: directory },
  });
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  process.stderr.write(`${((performance.now() - began) / 1_000).toFixed(0)} s\n${stderr}`);
  try {
    delete missing[name];
    return JSON.parse(stdout);
  } catch {
    missing[name] = /^\w*Error: .*/m.exec(stderr)?.[0] ?? "it did not end in time";
    return null;
  }
}

/** Without those that could not be measured. */
function inOrder(names, results) {
  return Object.fromEntries(
    Object.values(names).flatMap((name) => ((results[name] ?? null) === null ? [] : [[name, results[name]]])),
  );
}
