import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { Screen } from "../../src/terminal/screen.js";

const ESC = "\u001b";

function screen(rows = 5, cols = 20): Screen {
  const made = new Screen({ rows, cols });
  onTestFinished(() => made[Symbol.asyncDispose]());
  return made;
}

async function show(output: string | Uint8Array, rows?: number, cols?: number): Promise<Screen> {
  const shown = screen(rows, cols);
  await shown.feed(Buffer.from(output as string));
  return shown;
}

describe("a screen shows what a terminal would:", () => {
  test("text at its position", async () => {
    const { rows, cols, cursor } = (await show(`one\r\ntwo   \r\n${ESC}[5;3Hlast`)).snapshot();
    expect(rows).toEqual(["one", "two", "", "", "  last"]);
    expect(cols).toBe(20);
    expect(cursor).toEqual({ x: 6, y: 4, visible: true });
  });

  test("the newest lines if more were printed than fit", async () => {
    const { rows } = (await show("1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7")).snapshot();
    expect(rows).toEqual(["3", "4", "5", "6", "7"]);
  });

  test("the alternate screen, and the normal one after it", async () => {
    const shown = await show(`shell${ESC}[?1049h${ESC}[Heditor`);
    expect(shown.snapshot()).toMatchObject({ alternate: true, rows: ["editor", "", "", "", ""] });
    await shown.feed(Buffer.from(`${ESC}[?1049l`));
    expect(shown.snapshot()).toMatchObject({ alternate: false, rows: ["shell", "", "", "", ""] });
  });

  test("whether the cursor is hidden", async () => {
    const shown = await show(`${ESC}[?25l`);
    expect(shown.snapshot().cursor.visible).toBe(false);
    await shown.feed(Buffer.from(`${ESC}[?12;25h`));
    expect(shown.snapshot().cursor.visible).toBe(true);
    await shown.feed(Buffer.from(`${ESC}[?25l${ESC}c`));
    expect(shown.snapshot().cursor.visible).toBe(true);
  });

  test("the modes that the program set", async () => {
    const asked = await show(`${ESC}[?1h${ESC}=${ESC}[?2004h${ESC}[?1004h${ESC}[?1000h`);
    expect(asked.snapshot().modes).toEqual({
      applicationCursor: true,
      applicationKeypad: true,
      bracketedPaste: true,
      focusEvents: true,
      mouse: true,
    });
    await asked.feed(Buffer.from(`${ESC}c`));
    expect(Object.values(asked.snapshot().modes)).toEqual([false, false, false, false, false]);
  });

  test("the title, and the previous one after it was popped", async () => {
    const shown = await show(`${ESC}]0;first\u0007${ESC}[22;0t${ESC}]2;second${ESC}\\`);
    expect(shown.snapshot().title).toBe("second");
    await shown.feed(Buffer.from(`${ESC}[23;0t`));
    expect(shown.snapshot().title).toBe("first");
  });

  test("wide characters and emoji in two cells, marks in none", async () => {
    const { rows, cursor } = (await show("漢字😀e\u0301|")).snapshot();
    expect(rows[0]).toBe("漢字😀e\u0301|");
    expect(cursor.x).toBe(8);
  });

  test("the content after a resize", async () => {
    const shown = await show("one\r\ntwo");
    await shown.resize({ rows: 3, cols: 10 });
    expect(shown.snapshot()).toMatchObject({ rows: ["one", "two", ""], cols: 10 });
  });
});

const PIECES = [
  "text ",
  "é漢😀",
  "\r\n",
  "\t",
  "\b",
  `${ESC}[2J`,
  `${ESC}[3;4H`,
  `${ESC}[1;31m`,
  `${ESC}[m`,
  `${ESC}[?1049h`,
  `${ESC}[?1049l`,
  `${ESC}[2L`,
  `${ESC}[5b`,
  `${ESC}]0;títle\u0007`,
  `${ESC}Pq#0${ESC}\\`,
  `${ESC}[?25l`,
  `${ESC}(0`,
  ESC,
  `${ESC}[`,
  `${ESC}]`,
  "\u009b",
  "\u0301",
].map((piece) => Buffer.from(piece));
const output = fc
  .array(fc.oneof(fc.constantFrom(...PIECES), fc.uint8Array({ maxLength: 6 })), { maxLength: 40 })
  .map((pieces) => Buffer.concat(pieces));

test("the screen is the same however output is split", async () => {
  await fc.assert(
    fc.asyncProperty(
      output,
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      async (bytes, sizes) => {
        const whole = new Screen({ rows: 5, cols: 20 });
        const cut = new Screen({ rows: 5, cols: 20 });
        await whole.feed(bytes);
        for (let start = 0, turn = 0; start < bytes.length; turn += 1) {
          const size = sizes[turn % sizes.length] ?? 1;
          await cut.feed(bytes.subarray(start, start + size));
          start += size;
        }
        expect(cut.snapshot()).toEqual(whole.snapshot());
        expect(cut.serialize()).toEqual(whole.serialize());
        expect(cut.snapshot().bytes).toBe(bytes.length);
        await Promise.all([whole[Symbol.asyncDispose](), cut[Symbol.asyncDispose]()]);
      },
    ),
    { numRuns: 150 },
  );
});

test("a snapshot never contains control characters", async () => {
  await fc.assert(
    fc.asyncProperty(output, async (bytes) => {
      const shown = new Screen({ rows: 5, cols: 20 });
      await shown.feed(bytes);
      const { rows, title } = shown.snapshot();
      expect([...rows, title].join("")).not.toMatch(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u);
      await shown[Symbol.asyncDispose]();
    }),
    { numRuns: 200 },
  );
});

test("a bidirectional override is shown, not applied", async () => {
  const { rows, title } = (await show(`safe\u202Etxt${ESC}]0;a\u202Eb\u0007`)).snapshot();
  expect(rows[0]).toBe("safe<U+202E>txt");
  expect(title).toBe("a<U+202E>b");
});

describe("a terminal that attaches later", () => {
  test.each([
    ["text and colours", `a${ESC}[1;31mred${ESC}[m\r\nb`],
    ["an editor's screen above a shell's", `$ vi\r\n${ESC}[?1049h${ESC}[?1h${ESC}[Htext${ESC}[3;3H`],
    ["wide characters", "漢字😀e\u0301|\r\n字"],
    ["modes and a hidden cursor", `${ESC}[?2004h${ESC}[?25l${ESC}=x`],
    ["lines that have scrolled away", Array.from({ length: 30 }, (_, line) => `line ${line}`).join("\r\n")],
  ])("shows the same: %s", async (_what, text) => {
    const first = await show(text);
    const second = await show(first.serialize());
    expect({ ...second.snapshot(), bytes: 0 }).toEqual({ ...first.snapshot(), bytes: 0 });
    expect(second.serialize()).toBe(first.serialize());
  });
});

describe("a program's terminal queries", () => {
  test("are answered once, to the caller that takes the answers", async () => {
    const shown = await show(`${ESC}[6n${ESC}[c`);
    expect(Buffer.from(shown.takeReplies()).toString()).toBe(`${ESC}[1;1R${ESC}[?1;2c`);
    expect(shown.takeReplies()).toHaveLength(0);
    expect(shown.snapshot().rows.join("")).toBe("");
  });

  test("cannot fill the memory with answers that are not taken", async () => {
    const shown = await show(`${ESC}[6n`.repeat(100_000));
    const { length } = shown.takeReplies();
    expect(length).toBeGreaterThan(0);
    expect(length).toBeLessThanOrEqual(defaults.screenRepliesBytes);
  });
});

describe("hostile output is drawn in bounded time and memory:", () => {
  const MEBIBYTE = 1024 * 1024;
  test.each([
    [
      "counts in the thousands of millions",
      "LMSTIZb@PX"
        .split("")
        .map((final) => `x${ESC}[2147483647${final}`)
        .join("")
        .repeat(50),
    ],
    ["the same, with controls inside", `x${ESC}[21474\n83647b`.repeat(100)],
    ["a title without an end", `${ESC}]0;${"x".repeat(12 * MEBIBYTE)}`],
    ["titles of a mebibyte, stacked", `${ESC}]0;${"x".repeat(MEBIBYTE)}\u0007${ESC}[22;0t`.repeat(12)],
    ["links with long targets", `${ESC}]8;;http://${"x".repeat(100_000)}\u0007a\n`.repeat(50)],
    ["a million marks on one character", `a${"\u0301".repeat(MEBIBYTE)}`],
    ["a device control string without an end", `${ESC}P$q${"m".repeat(12 * MEBIBYTE)}`],
    ["endless parameters", `${ESC}[${"1;".repeat(MEBIBYTE)}m`],
    ["resets", `${ESC}c`.repeat(50_000)],
    ["switching screens", `${ESC}[?1049h${ESC}[?1049l`.repeat(20_000)],
  ])("%s", async (_what, text) => {
    const before = process.memoryUsage().heapUsed;
    const shown = await show(text);
    await shown.feed(Buffer.from(`\u0018${ESC}c${ESC}[Halive`));
    expect(shown.snapshot().rows[0]).toBe("alive");
    expect(shown.serialize().length).toBeLessThan(5 * MEBIBYTE);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * MEBIBYTE);
  });

  test("other code runs while it is drawn", async () => {
    const shown = screen(200, 250);
    let longest = 0;
    const began = performance.now();
    let last = began;
    const pulse = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    onTestFinished(() => clearInterval(pulse));
    await shown.feed(Buffer.from(`${ESC}[200L`.repeat(1_200)));
    expect(longest).toBeLessThan((performance.now() - began) / 2);
  });

  test("a cell has its character and a few marks", async () => {
    const { rows } = (await show(`a${"\u0301".repeat(100)}`)).snapshot();
    expect(rows[0]).toMatch(/^a\u0301{8}/u);
    expect(rows.join("").length).toBeLessThan(200);
  });

  test("a terminal of any size", async () => {
    const shown = await show("x", 65_535, 65_535);
    const { rows, cols } = shown.snapshot();
    expect([rows.length, cols]).toEqual([defaults.screenMaxRows, defaults.screenMaxCols]);
    await shown.resize({ rows: 0, cols: 0 });
    expect(shown.snapshot().rows).toHaveLength(1);
  });
});

test("feeding without waiting fails before the memory is full", async () => {
  const shown = screen();
  const chunk = Buffer.alloc(1024 * 1024, "x");
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => shown.feed(chunk)));
  expect(results.filter(({ status }) => status === "rejected").length).toBeGreaterThan(5);
  await shown.feed(Buffer.from(`${ESC}c`));
  await expect(shown.feed(Buffer.from("fine"))).resolves.toBeUndefined();
});

test("a screen that is disposed while it draws finishes, and accepts no more output", async () => {
  const shown = new Screen();
  const fed = shown.feed(Buffer.alloc(500_000, "x"));
  await shown[Symbol.asyncDispose]();
  await expect(fed).resolves.toBeUndefined();
  await expect(shown.feed(Buffer.from("x"))).rejects.toThrow("disposed");
});
