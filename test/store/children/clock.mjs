// Says what time it is on the store's clock.
const [store] = process.argv.slice(2);
const { hostMonotonicMs } = await import(`${store}/sqlite/clock.js`);
process.send(hostMonotonicMs());
process.disconnect();
