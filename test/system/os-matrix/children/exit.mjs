// Says something on both streams and exits, later if told so: node exit.mjs <code> [<ms>]
const [, , code, ms = "0"] = process.argv;
console.log("out");
console.error("err");
process.exitCode = Number(code);
setTimeout(() => {}, Number(ms));
