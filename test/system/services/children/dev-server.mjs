// A dev server: node server.mjs <port> [<ms before it listens>]. Answers with its pid; `/deaf` makes it listen no more.
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

const [, , port, beforeMs = "0"] = process.argv;
await setTimeout(Number(beforeMs));
const server = createServer((request, response) => {
  response.setHeader("connection", "close");
  response.end(String(process.pid));
  if (request.url === "/deaf") server.close();
});
server.listen(Number(port), "127.0.0.1");
// It stays when it is deaf.
setInterval(() => {}, 60_000);
