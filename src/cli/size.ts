import { BadInput } from "../errors.js";

/** As for dd(1): K, M, G and KiB, MiB, GiB count in 1024s; kB, MB, GB in 1000s. */
const UNIT_BYTES: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kib: 1024,
  kb: 1_000,
  m: 1024 ** 2,
  mib: 1024 ** 2,
  mb: 1_000 ** 2,
  g: 1024 ** 3,
  gib: 1024 ** 3,
  gb: 1_000 ** 3,
};

/** A size as people write it, in bytes: `8M`, `64KiB`, `1.5GB`, `4096`. */
export function parseSize(text: string, field = "size"): number {
  const match = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text);
  const unit = UNIT_BYTES[match?.[2]?.toLowerCase() ?? "?"];
  const bytes = unit === undefined ? Number.NaN : Math.floor(Number(match?.[1]) * unit);
  if (!Number.isSafeInteger(bytes))
    throw new BadInput(field, `${JSON.stringify(text)} is not a size; write 8M, 64KiB, 1.5GB, or bytes`);
  return bytes;
}

/** `1.5 MiB`; whole bytes below one KiB. */
export function formatSize(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : Math.round(value * 10) / 10} ${units[at]}`;
}
