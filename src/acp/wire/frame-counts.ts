/** Frames received, and those that could not be used. */
export class FrameCounts {
  frames = 0;
  malformed = 0;
  answeredTwice = 0;
  late = 0;
  unmatched = 0;
  unknownRequests = 0;
  ignored = 0;
  #lastMalformed = "";

  addMalformed(excerpt: string): void {
    this.malformed++;
    this.#lastMalformed = excerpt;
  }

  describeMalformed(): string[] {
    if (this.malformed === 0) return [];
    const lines =
      this.malformed === 1
        ? "a line that is not a frame"
        : `${this.malformed} lines that are not frames, the last`;
    return [`it wrote ${lines}: ${this.#lastMalformed}`];
  }
}
