// Takes the pipe of a launcher that was killed, as another user could, and starts a run with a secret. Prints how the run
// ended, and whether the secret reached the pipe. Usage: node stranger.mjs CLI, with HOLDFAST_HOME.
import { spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { encodeMessage } from "../../../../dist/anchor/protocol/message-codec.js";
import { isAlive, pipeName, until } from "./client.mjs";

const { HOLDFAST_HOME: home } = process.env;
const [cli] = process.argv.slice(2);
const run = (...words) => [cli, "run", "--env", "SECRET=hunter2", "--", process.execPath, "-e", ...words];

const first = spawnSync(process.execPath, run("console.log(1)"), { encoding: "utf8" });
const [instance] = readdirSync(join(home, "instances"));
const directory = join(home, "instances", instance);
const { pid } = JSON.parse(readFileSync(join(directory, "launcher.json"), "utf8"));
process.kill(pid, "SIGKILL");
await until(() => !isAlive(pid), "the launcher is gone");

let received = "";
const fields = {
  protocol: 1,
  anchorPid: pid,
  anchorStart: 1,
  anchorUnique: "1",
  cgroup: "x",
  tierNote: null,
  warm: false,
};
const server = createServer((socket) => {
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    // The request to start a run is longer than the first one.
    if (chunk.length > 100) socket.destroy();
    else socket.write(encodeMessage("launcher", fields));
  });
});
await new Promise((resolve) => server.listen(pipeName(join(directory, "launcher.sock")), resolve));
const child = spawn(process.execPath, run("console.log(2)"), { stdio: ["ignore", "pipe", "pipe"] });
let stderr = "";
child.stderr.on("data", (part) => (stderr += part));
const code = await new Promise((resolve) => child.on("close", resolve));
server.close();
spawnSync(process.execPath, [cli, "gateway", "stop"]);
process.stdout.write(
  `${JSON.stringify({ first: first.status, code, stderr, connected: received !== "", leaked: received.includes("hunter2") })}\n`,
  () => process.exit(0),
);
