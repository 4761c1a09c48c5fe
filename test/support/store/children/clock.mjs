// Sends the time on the store's clock.
const [dist] = process.argv.slice(2);
const { hostMonotonicMs } = await import(`${dist}/async/clock.js`);
process.send(hostMonotonicMs());
process.disconnect();
