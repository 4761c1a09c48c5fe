export declare const anchorDirectory: string;
export declare function isAnchorSystem(system: string): boolean;
export declare function anchorSources(system: string, suffix: ".c" | ".h"): string[];
