// Preloaded: makes the SDK's example agent, which pretends to think for a second at a time, think faster.
const unhurried = globalThis.setTimeout;
globalThis.setTimeout = (call, ms, ...rest) => unhurried(call, ms / 50, ...rest);
