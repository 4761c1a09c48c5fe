/** How what happens is shown: to be read, as it came, or the answer alone. */
export const FORMATS = ["text", "json", "quiet"] as const;
export type Format = (typeof FORMATS)[number];
