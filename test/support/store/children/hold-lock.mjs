// Acquires the lock of an instance: sends "held" and keeps it, or sends the error code.
const [dist, dir] = process.argv.slice(2);
const { acquireInstanceLock } = await import(`${dist}/home/instance-lock.js`);
try {
  const lock = await acquireInstanceLock(dir);
  process.send("held");
  process.on("message", () => {
    lock[Symbol.asyncDispose]().then(() => process.disconnect());
  });
} catch (error) {
  process.send(error.code);
  process.disconnect();
}
