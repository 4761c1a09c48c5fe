/** How what happens is shown: to be read, as it came, or the answer alone. */
export const OUTPUT_FORMATS = ["text", "json", "quiet"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];
