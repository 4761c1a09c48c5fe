/** A pause of at most so long and at least half of it: those who lost the same server must not come back in step. */
export function jitter(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}
