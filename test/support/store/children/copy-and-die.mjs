// Copies a store, and kills itself after this many batches.
const [dist, from, to, portions] = process.argv.slice(2);
const { copyStore } = await import(`${dist}/store/copy/copy-store.js`);
const { parseStoreLocation } = await import(`${dist}/store/location.js`);
let left = Number(portions);
await copyStore({
  from: await parseStoreLocation(from),
  to: await parseStoreLocation(to),
  home: "/nowhere",
  onProgress: () => {
    left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  },
});
process.exit(0);
