import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

/** Pixels of one item, or of each by what it is. */
type ItemHeight<Item> = number | ((item: Item) => number);

interface VirtualListProps<Item> {
  /** For screen readers. */
  readonly label: string;
  readonly items: readonly Item[];
  readonly itemKey: (item: Item) => string;
  readonly render: (item: Item) => ComponentChildren;
  readonly itemHeight: ItemHeight<Item>;
  /** The same on a phone. */
  readonly narrowItemHeight?: ItemHeight<Item>;
  /** The items from `from` to (without) `to` are kept in the document. */
  readonly onRange?: (from: number, to: number) => void;
}

/** The heights of a row of the usual lists, `.list-row`, and of one on a phone, where it has two lines. */
export const ROW_PX = 44;
export const NARROW_ROW_PX = 72;

/** Above and below the visible part, items are kept, so that scrolling shows no gap. */
const OVERSCAN_PX = 500;

const narrow = window.matchMedia("(max-width: 640px)");

/** A list of any length that scrolls with the page and keeps only the visible items in the document. */
export function VirtualList<Item>({
  label,
  items,
  itemKey,
  render,
  itemHeight,
  narrowItemHeight = itemHeight,
  onRange,
}: VirtualListProps<Item>) {
  const list = useRef<HTMLUListElement>(null);
  const isNarrow = useSignal(narrow.matches);
  const range = useSignal({ from: 0, to: 50 });
  const height = isNarrow.value ? narrowItemHeight : itemHeight;
  const tops = useMemo(() => topsOf(items, height), [items, height]);
  useLayoutEffect(() => {
    const update = (): void => {
      isNarrow.value = narrow.matches;
      const top = -(list.current?.getBoundingClientRect().top ?? 0);
      const from = Math.max(0, indexAt(tops, top - OVERSCAN_PX));
      const to = Math.max(from, indexAt(tops, top + window.innerHeight + OVERSCAN_PX) + 1);
      const shown = range.peek();
      if (from !== shown.from || to !== shown.to) range.value = { from, to };
      onRange?.(from, to);
    };
    update();
    window.addEventListener("scroll", update, { passive: true });
    window.addEventListener("resize", update);
    return () => {
      window.removeEventListener("scroll", update);
      window.removeEventListener("resize", update);
    };
  }, [tops]);
  const { from, to } = range.value;
  return (
    <ul ref={list} class="virtual-list" aria-label={label} style={{ height: `${tops.at(-1) ?? 0}px` }}>
      {items.slice(from, to).map((item, at) => {
        const top = tops[from + at] ?? 0;
        return (
          <li
            key={itemKey(item)}
            aria-setsize={items.length}
            aria-posinset={from + at + 1}
            style={{
              height: `${(tops[from + at + 1] ?? top) - top}px`,
              transform: `translateY(${top}px)`,
            }}
          >
            {render(item)}
          </li>
        );
      })}
    </ul>
  );
}

/** The offset of each item, and at last that of the end of the list. */
function topsOf<Item>(items: readonly Item[], height: ItemHeight<Item>): readonly number[] {
  const tops = [0];
  let top = 0;
  for (const item of items) tops.push((top += typeof height === "number" ? height : height(item)));
  return tops;
}

/** The item at a position. */
function indexAt(tops: readonly number[], position: number): number {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((tops[middle] ?? 0) <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}
