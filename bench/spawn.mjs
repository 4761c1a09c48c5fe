// Spawn to exit of /bin/true: a durable, supervised run compared with bare child_process.spawn, alternating, in one
// process.
//
// Usage: node bench/spawn.mjs [count] [ballast in MB]
import { spawn } from "node:child_process";
import { row, sideBySide, withSupervisor } from "./measure.mjs";

const count = Number(process.argv[2] ?? 400);
const ballastMb = Number(process.argv[3] ?? 0);

const bare = () =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/true", [], { stdio: ["pipe", "pipe", "pipe"] });
    child.on("error", reject);
    child.on("close", resolve);
  });

await withSupervisor(async (supervisor) => {
  const ours = async () => {
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] });
    await run.wait();
  };
  for (let i = 0; i < 30; i++) {
    await ours();
    await bare();
  }
  const ballast = ballastMb > 0 ? Buffer.alloc(ballastMb * 1024 * 1024, 1) : null;
  const samples = await sideBySide(count, ours, bare);
  const size = ballast === null ? "small process" : `${ballastMb} MB resident`;
  console.log(
    JSON.stringify([
      row(`spawn to exit, ms (${size})`, samples.ours, samples.theirs),
      row(`event loop busy per spawn, ms (${size})`, samples.oursLoop, samples.theirsLoop),
    ]),
  );
});
