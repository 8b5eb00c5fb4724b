// Numbers for people: short, and of about the same width whatever their size.

const nbsp = '\u00a0';

/** 0.0000123 -> "12 µs", 0.34 -> "340 ms", 75 -> "1:15". */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) {
    return '';
  }
  const s = Math.max(0, seconds);
  if (s < 0.0009995) {
    return `${Math.round(s * 1e6)}${nbsp}µs`;
  }
  if (s < 0.9995) {
    const ms = s * 1000;
    return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)}${nbsp}ms`;
  }
  if (s < 59.95) {
    return `${s < 9.95 ? s.toFixed(1) : Math.round(s)}${nbsp}s`;
  }
  return clock(s);
}

/** 75 -> "1:15", 3675 -> "1:01:15". */
export function clock(seconds: number): string {
  const s = Math.floor(Math.max(0, seconds));
  const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
  const two = (n: number) => String(n).padStart(2, '0');
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

/** 0.012 -> "12 ms", 2.34 -> "2.3 s", 75 -> "1:15": a clock that says something about short work too. */
export function stopwatch(seconds: number): string {
  if (seconds > 0 && seconds < 0.095) {
    return duration(seconds);
  }
  return seconds < 9.95 ? `${Math.max(0, seconds).toFixed(1)}${nbsp}s` : clock(seconds);
}

/** 1234 -> "1.2 kB", with decimal prefixes. */
export function size(bytes: number): string {
  if (!Number.isFinite(bytes)) {
    return '';
  }
  let [value, unit] = [bytes, 0];
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : Number(value.toPrecision(2))}${nbsp}${units[unit]}`;
}

/** 12345 -> "12,345" as the reader's language writes it. */
export function integer(value: number): string {
  return Math.round(value).toLocaleString();
}

/** 0.5 -> "0.5", 312.4 -> "312", 16700 -> "16.7k". */
export function short(value: number): string {
  if (value >= 999_500) {
    return `${Number((value / 1e6).toPrecision(3))}M`;
  }
  if (value >= 9_995) {
    return `${Number((value / 1e3).toPrecision(3))}k`;
  }
  return value >= 9.95 || Number.isInteger(value) ? integer(value) : String(Number(value.toFixed(1)));
}
