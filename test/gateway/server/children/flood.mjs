// One session that asks for as much as it can: followers that stay, and requests that are never given up.
// Says "ready" when all of it was sent; told anything on stdin, says what became of it and exits.
import { connect } from "node:net";

const [socketPath, token, followers, requests] = process.argv.slice(2);
const head = `HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`;
const statuses = {};

function open(text) {
  const socket = connect(socketPath);
  let rest = "";
  socket.setEncoding("latin1");
  socket.on("data", (part) => {
    rest = rest.slice(-20) + part;
    for (const [, status] of rest.matchAll(/HTTP\/1\.1 (\d\d\d) /g)) {
      statuses[status] = (statuses[status] ?? 0) + 1;
      rest = "";
    }
  });
  socket.on("error", () => undefined);
  socket.write(text);
  return new Promise((resolve) => {
    socket.once("connect", resolve);
    socket.once("error", resolve);
  });
}

const opening = [];
const paths = [
  "/v1/runs?all=1&hidden=1&limit=1000",
  "/v1/events?limit=1000",
  "/v1/gateway",
  "/v1/sessions",
  "/v1/tasks",
];
const CONNECTIONS = 100;
for (let at = 0; at < CONNECTIONS; at++) {
  const text = Array.from(
    { length: Number(requests) / CONNECTIONS },
    (_, each) => `GET ${paths[(at + each) % paths.length]} ${head}`,
  );
  opening.push(open(text.join("")));
}
// Each begins elsewhere: none can share the read of another.
for (let at = 0; at < Number(followers); at++)
  opening.push(open(`GET /v1/events?follow=1&after=${at} ${head}`));
await Promise.all(opening);
process.stdout.write("ready\n");
process.stdin.once("data", () => {
  process.stdout.write(`${JSON.stringify({ statuses })}\n`);
  process.exit(0);
});
