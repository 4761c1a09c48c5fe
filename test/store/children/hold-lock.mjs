// Tries to take an instance's lock; says "held" and keeps it, or says why not.
const [store, dir] = process.argv.slice(2);
const { acquireInstanceLock } = await import(`${store}/instance-lock.js`);
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
