export declare const reasons: Readonly<Record<string, string>>;
export declare function reasonOf(
  work: string,
  results: Readonly<Record<string, readonly (readonly Readonly<Record<string, string>>[])[]>>,
): string;
