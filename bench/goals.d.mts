export interface Goal {
  readonly work: string;
  readonly part: string;
}
export interface Compared {
  readonly work: string;
  readonly goal: string;
  readonly range: string;
  readonly verdict: string;
  readonly part: string;
}
type Rows = readonly Readonly<Record<string, string>>[];
export declare const goals: readonly Goal[];
export declare function compareWithGoals(results: Readonly<Record<string, readonly Rows[]>>): Compared[];
export declare function rangeOfFigure(
  results: Readonly<Record<string, readonly Rows[]>>,
  part: string,
  find: string,
  from: string,
  unit: string,
): string | null;
export declare function goalsWithoutRow(results: Readonly<Record<string, readonly Rows[]>>): Goal[];
