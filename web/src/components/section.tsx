import type { ComponentChildren } from "preact";

interface SectionProps {
  readonly title: string;
  /** How many things it lists. */
  readonly count?: number;
  readonly children: ComponentChildren;
}

/** A part of a view, with its heading. */
export function Section({ title, count, children }: SectionProps) {
  return (
    <section class="section" aria-label={title}>
      <h2>
        {title}
        {count !== undefined && <span class="count">{count.toLocaleString()}</span>}
      </h2>
      {children}
    </section>
  );
}
