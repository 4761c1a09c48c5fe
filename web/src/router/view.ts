import type { ComponentType } from "preact";

export interface ViewProps {
  /** The parameters of the path. */
  readonly params: Readonly<Record<string, string>>;
}

export interface View {
  /** As in `/runs/:runId`. */
  readonly pattern: string;
  /** The title of the page, and the entry in the navigation. */
  readonly title: string;
  /** The path that the entry in the navigation leads to. Null: the view has no entry. */
  readonly navigation: string | null;
  /** Its routes do not exist for a session, so the page of a session has no entry for it. */
  readonly operatorOnly?: true;
  /** Loads the code of the view when it is first shown. */
  readonly load: () => Promise<ComponentType<ViewProps>>;
}
