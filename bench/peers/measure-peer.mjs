// Measures one process manager in this PID namespace, which should be its own: processes are left on purpose.
//
// Usage: node measure-peer.mjs <peer> <directory of programs> <seconds per measurement> <idle jobs>
import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { quantile } from "../measure.mjs";
import { listProcesses, memoryKb, until } from "../support/processes.mjs";

const GRACE_MS = 2_000;
const CALLERS = 4;
const ARTISTS = 6;
const TREES = 3;
/** A command that writes a line every 50 ms for two seconds, then makes a file and exits with 7. */
const LINES = 40;
const job = (proof) => [
  "/bin/sh",
  "-c",
  `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo "line $i"; sleep 0.05; done; : >${proof}; exit 7`,
];

const [name, prefix, seconds, idle] = process.argv.slice(2);
const directory = await mkdtemp(join(tmpdir(), "p-"));
const { open } = await import(`./${name}.mjs`);
const peer = await open({ directory, prefix, graceMs: GRACE_MS });
const result = {};
// A client in this process may report that its manager was killed.
process.on("uncaughtException", (error) => console.error(`${name}: ${error.message}`));
try {
  await part(() => memory(Number(idle)));
  await part(() => submissions(Number(seconds) * 1_000));
  await part(stops);
  await part(managerKilled);
} finally {
  console.log(JSON.stringify(result));
  await peer.close();
}
process.exit();

/** A measurement that fails does not lose the others. */
async function part(measure) {
  try {
    Object.assign(result, await measure());
  } catch (error) {
    console.error(`${name}: not measured: ${error.message}`);
  }
}

/** In kB: the manager, resident, and its growth (private pages, and its share of others) for each idle job. */
async function memory(count) {
  const residentKb = ownKb("status", "VmRSS");
  const baseline = ownKb("smaps_rollup", "Pss");
  await peer.startMany(count, ["/bin/sleep", "7770"]);
  await until(() => listProcesses().filter(({ argv }) => argv[1] === "7770").length === count, 20);
  await sleep(1_000);
  const each = (ownKb("smaps_rollup", "Pss") - baseline) / count;
  return { managerKb: residentKb, idleKb: Math.max(0, Math.round(each)) };
}

/** All processes of this namespace but this one, the shell above it and the jobs. */
function ownKb(file, field) {
  return listProcesses()
    .filter(({ pid, argv }) => pid !== 1 && pid !== process.pid && !(argv[0] ?? "").endsWith("sleep"))
    .reduce((sum, { pid }) => sum + memoryKb(pid, file, field), 0);
}

async function submissions(forMs) {
  const call = async () => {
    const code = await peer.submit(["/bin/true"]);
    if (code !== 0) throw new Error(`${name}: exit code ${code} instead of 0`);
  };
  for (let warm = 0; warm < 3; warm++) await call();
  const times = [];
  for (const began = performance.now(); times.length < 5 || performance.now() - began < forMs;) {
    const from = performance.now();
    await call();
    times.push(performance.now() - from);
  }
  let done = 0;
  const began = performance.now();
  const caller = async () => {
    while (performance.now() - began < forMs) {
      await call();
      done++;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return {
    submitMs: { p50: quantile(times, 0.5), p99: quantile(times, 0.99) },
    perSecond: (done / (performance.now() - began)) * 1_000,
  };
}

/** The time until the manager reports that the tree is stopped, and the most processes alive a second later. */
async function stops() {
  const times = [];
  const survivors = [];
  const script = fileURLToPath(new URL("tree.sh", import.meta.url));
  for (let tree = 0; tree < TREES; tree++) {
    const number = `77${tree + 1}000`;
    const started = await peer.start(["/bin/sh", script, number]);
    await until(() => artistsOf(number).length === ARTISTS, 10);
    const began = performance.now();
    await peer.stop(started);
    times.push(performance.now() - began);
    await sleep(1_000);
    survivors.push(artistsOf(number));
  }
  return {
    stopMs: quantile(times, 0.5),
    survivors: survivors.toSorted((one, other) => other.length - one.length)[0],
  };
}

/** Digits of the escape artists that are alive. */
function artistsOf(number) {
  const words = listProcesses().flatMap(({ argv }) => (argv[0].endsWith("sleep") ? argv.slice(1, 2) : []));
  return [1, 2, 3, 4, 5, 6].filter((digit) => words.includes(`${number}${digit}`));
}

async function managerKilled() {
  const proof = join(directory, "proof");
  const started = await peer.start(job(proof));
  await until(async () => ((await attempt(() => peer.output(started))) ?? "").includes("line 10"), 20);
  const managers = peer.managers(started);
  if (managers.length === 0) throw new Error(`${name}: its manager was not found`);
  for (const pid of managers) process.kill(pid, "SIGKILL");
  await until(() => managers.every((pid) => listProcesses().every((each) => each.pid !== pid)));
  await attempt(() => peer.restart());
  await until(
    () => existsSync(proof) || !listProcesses().some(({ argv }) => argv.join(" ").includes(proof)),
    20,
  );
  // Its manager may take notice of the end.
  await sleep(1_000);
  const output = (await attempt(() => peer.output(started))) ?? "";
  const lines = output.split("\n").filter((line) => line.startsWith("line ")).length;
  return {
    killed: peer.killed,
    job: existsSync(proof) ? "continues" : "ends",
    lines: `${lines} of ${LINES}`,
    exitCode: (await attempt(() => peer.exitCode(started))) ?? null,
  };
}

/** Null instead of an error: the manager does not know the job any more. */
async function attempt(call) {
  try {
    return await Promise.race([call(), sleep(10_000).then(() => null)]);
  } catch {
    return null;
  }
}
