// An HTTP server without checks: /bare spawns /bin/true, /durable runs it as in least-run.mjs, /cpu answers with the CPU
// time of this process in milliseconds.
//
// Usage: node bench/support/least-server.mjs <socket> <keeper program> <directory> <runs at once>
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { Keeper, openRecords } from "./least-run.mjs";

const [socket, program, directory, atOnce] = process.argv.slice(2);
const records = openRecords(directory);
const keepers = Array.from({ length: Number(atOnce) }, () => new Keeper(program, directory));
const work = {
  "/bare": () =>
    new Promise((resolve, reject) => {
      const child = spawn("/bin/true", [], { stdio: ["pipe", "pipe", "pipe"] });
      child.on("error", reject);
      child.on("close", (code) => resolve({ code }));
    }),
  "/durable": async () => {
    const keeper = keepers.pop();
    await keeper.run(records, { sync: true });
    keepers.push(keeper);
    return { code: 0 };
  },
  "/cpu": async () => {
    const { user, system } = process.cpuUsage();
    return { ms: (user + system) / 1_000 };
  },
};

async function answer(request, response) {
  const body = JSON.stringify(await work[request.url]());
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}

createServer((request, response) => {
  request.resume();
  void answer(request, response);
}).listen(socket, () => console.log("listens"));
