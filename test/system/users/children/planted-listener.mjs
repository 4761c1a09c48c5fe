// Listens on a planted socket, answers every request as a gateway that is ready would, and records every byte.
// Usage: planted-listener.mjs SOCKET RECORD
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const [, , socketPath, record] = process.argv;
const status = {
  ready: true,
  instanceId: "gw_000000000000",
  pid: process.pid,
  home: "/",
  runs: 0,
  startedAt: 0,
  version: "0.1.0",
  listen: null,
  storeAway: null,
};
const server = createServer((request, response) => {
  request.resume();
  response.end(JSON.stringify(status));
});
server.on("connection", (socket) => {
  appendFileSync(record, "connected\n");
  socket.on("data", (part) => appendFileSync(record, part));
});
server.listen(socketPath, () => process.stdout.write("listening\n"));
