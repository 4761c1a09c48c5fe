const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function formatBytes(bytes: number): string {
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < UNITS.length - 1; unit++) size /= 1024;
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit] ?? "B"}`;
}

export function Bytes({ value }: { readonly value: number }) {
  return (
    <span class="number" title={`${value.toLocaleString()} bytes`}>
      {formatBytes(value)}
    </span>
  );
}
