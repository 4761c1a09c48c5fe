// Runs all benchmarks: npm run bench. Ratios are comparable between machines, absolute figures are not.
import { spawnSync } from "node:child_process";
import { arch, cpus, release } from "node:os";

const parts = [
  ["startup.mjs", "20"],
  ["spawn.mjs", "400"],
  ["spawn.mjs", "100", "1024"],
  ["kill.mjs"],
  ["output.mjs"],
  ["idle.mjs", "500"],
  ["leases.mjs"],
  ["store.mjs"],
  ["many-hosts.mjs"],
  ["reconcile.mjs", "10000"],
  ["gateway.mjs", "200", "1000"],
  ["acp.mjs", "200", "50000"],
  ["tasks.mjs"],
];

console.log(`Linux ${release()} ${arch()}, ${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}`);
for (const [script, ...args] of parts) {
  const path = new URL(script, import.meta.url).pathname;
  const { status, stdout } = spawnSync(process.execPath, [path, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) process.exit(1);
  console.table(JSON.parse(stdout));
}
