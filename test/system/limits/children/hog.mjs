// Takes memory, four MiB at a time, up to so many MiB: node hog.mjs <MiB>
const taken = [];
while (taken.length * 4 < Number(process.argv[2])) taken.push(Buffer.alloc(4 << 20, 1));
console.log(`took ${taken.length * 4} MiB`);
