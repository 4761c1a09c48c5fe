// Output throughput: following a run's stdout to its last byte, compared with `command | cat > file`, alternating.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quantile, withSupervisor } from "./measure.mjs";

const megabytes = 512;
const rounds = 5;
const command = `head -c ${megabytes * 1024 * 1024} /dev/zero`;
const directory = await mkdtemp(join(tmpdir(), "hf-"));

function plainPipe() {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", `${command} | cat > ${directory}/file`], { stdio: "ignore" });
    child.on("error", reject);
    child.on("close", resolve);
  });
}

/** Every byte reaches this process with back-pressure, and is acknowledged. */
async function followed(supervisor) {
  const run = await supervisor.spawn(
    { io: "pipe", argv: ["/bin/sh", "-c", command] },
    { stdout: { policy: "back-pressure" } },
  );
  let bytes = 0;
  const buffer = new Uint8Array(256 * 1024);
  for await (const chunk of run.follow({ ack: true, buffer })) bytes += chunk.bytes.length;
  await run.wait();
  if (bytes !== megabytes * 1024 * 1024) throw new Error(`${bytes} bytes arrived`);
}

/** As a background run: into the spool that keeps the newest bytes. */
async function kept(supervisor) {
  const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", command] });
  await run.wait();
}

async function timed(work) {
  const began = performance.now();
  await work();
  return megabytes / ((performance.now() - began) / 1000);
}

const rates = { plain: [], followed: [], kept: [] };
await withSupervisor(async (supervisor) => {
  for (let i = 0; i < rounds; i++) {
    rates.plain.push(await timed(plainPipe));
    rates.followed.push(await timed(() => followed(supervisor)));
    rates.kept.push(await timed(() => kept(supervisor)));
  }
});
await rm(directory, { recursive: true, force: true });

const plain = quantile(rates.plain, 0.5);
const line = (name, values) => ({
  measured: `output, MB/s (${name})`,
  "holdfast p50/p99": quantile(values, 0.5).toFixed(0),
  "bare p50/p99": plain.toFixed(0),
  "ratio p50": (quantile(values, 0.5) / plain).toFixed(2),
});
console.log(
  JSON.stringify([
    line("followed under back-pressure, against cat > file", rates.followed),
    line("kept in the spool, against cat > file", rates.kept),
  ]),
);
