/** Rare situations that the schedules must include. */
export const OCCURRENCES = [
  "a warm anchor dies",
  "a warm anchor dies before it reads its START",
  "a supervisor is killed, and the START that it sent is lost",
  "a supervisor is killed, and the START that it sent is not read yet",
  "START is read after its supervisor was killed",
  "a supervisor is killed between START and the commit of the record",
  "a supervisor is killed between the commit of the record and GO",
  "the record of a run is refused",
  "the commit of a record is uncertain",
  "the record is committed once before GO",
  "the run of a warm anchor is claimed",
  "two supervisors claim the run of a warm anchor",
  "a claim of a run comes too late",
  "an anchor without a unique id has the pid and start time of a dead one",
] as const;

export type Occurrence = (typeof OCCURRENCES)[number];

/** How often each has occurred. */
export type OccurrenceCounts = Map<Occurrence, number>;

export function addOccurrence(counts: OccurrenceCounts, what: Occurrence, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times);
}
