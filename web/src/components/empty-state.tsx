import type { ComponentChildren } from "preact";

/** Shown in place of an empty list: why it is empty and, as children, what the person can do. */
export function EmptyState({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty-state">
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="quiet">{children}</div>}
    </div>
  );
}
