import { cpus, loadavg, release, totalmem } from "node:os";
import { arch } from "node:process";

/** Where and when figures were measured. */
export function describeMachine() {
  const gigabytes = Math.round(totalmem() / 1024 ** 3);
  return `Linux ${release()} ${arch}, ${cpus().length} × ${cpus()[0]?.model}, ${gigabytes} GB, Node ${process.version}`;
}

export function describeLoad() {
  return loadavg()[0].toFixed(1);
}

export function today() {
  return new Date().toISOString().slice(0, 10);
}
