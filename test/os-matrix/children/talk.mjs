// Asks on a terminal, now and then says that it still waits, and answers: node talk.mjs <every ms>
console.log(`terminal ${Boolean(process.stdin.isTTY)}`);
const still = setInterval(() => console.log("still here"), Number(process.argv[2]));
process.stdin.setEncoding("utf8").on("data", (text) => {
  if (!text.includes("bye")) return console.log(`heard ${text.trim()}`);
  clearInterval(still);
  process.exit(5);
});
