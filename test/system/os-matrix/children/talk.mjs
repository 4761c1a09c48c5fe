// Asks on a terminal, now and then says that it still waits, and answers: node talk.mjs <every ms>
import { isatty } from "node:tty";

console.log(`terminal ${isatty(0)}`);
const still = setInterval(() => console.log("still here"), Number(process.argv[2]));
process.stdin.setEncoding("utf8").on("data", (text) => {
  if (!text.includes("bye")) return console.log(`heard ${text.trim()}`);
  clearInterval(still);
  process.exit(5);
});
