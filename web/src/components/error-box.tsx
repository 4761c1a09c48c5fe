/** An error in the gateway's words, with a way to try again. */
export function ErrorBox({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  return (
    <div class="error-box" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
