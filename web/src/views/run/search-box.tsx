import { useRef } from "preact/hooks";

interface SearchBoxProps {
  readonly label: string;
  /** Said beside the box; null: nothing. */
  readonly result: string | null;
  readonly onFind: (text: string, backwards: boolean) => void;
}

/** Enter finds the next match, Shift+Enter the one before. */
export function SearchBox({ label, result, onFind }: SearchBoxProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <form
      class="search-box"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onFind(input.current?.value ?? "", false);
      }}
    >
      <input
        ref={input}
        type="search"
        aria-label={label}
        placeholder="Search"
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !event.shiftKey) return;
          event.preventDefault();
          onFind(event.currentTarget.value, true);
        }}
      />
      <button type="submit">Find</button>
      <span class="quiet" role="status">
        {result}
      </span>
    </form>
  );
}
