/** Do all of it, at most `limit` at a time. Results are in no particular order. */
export async function runConcurrently<T>(limit: number, work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const pending = work.values();
  const worker = async (): Promise<void> => {
    for (const each of pending) results.push(await each());
  };
  await Promise.all(Array.from({ length: Math.min(limit, work.length) }, worker));
  return results;
}
