export declare const reasons: Readonly<Record<string, string>>;
