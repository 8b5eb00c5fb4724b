// views/: the session as each view shows it: rows, lanes, axes, words; never the page or a clock.

// Axes of plots: what is drawn along them, from where to where, and where the marks stand. Pure.

export interface Axis {
  key: string;
  title: string;
  low: number;
  high: number;
  isLog: boolean;
  /** The values are indices of these. */
  words: readonly string[];
}

/** Ratios beyond this are drawn on a logarithmic axis, unless the reader asks otherwise. */
const WIDE = 200;

/** An axis over values; a logarithmic one only where all of them are positive. */
export function axisOf(
  key: string,
  title: string,
  values: Iterable<number>,
  words: readonly string[] = [],
  isLog: boolean | null = null
): Axis {
  if (words.length) {
    return { key, title, low: -0.5, high: words.length - 0.5, isLog: false, words };
  }
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) {
    return { key, title, low: 0, high: 1, isLog: false, words };
  }
  const log = low > 0 && (isLog ?? high / low > WIDE);
  if (low === high) {
    const margin = log ? 2 : Math.abs(low) || 1;
    return log
      ? { key, title, low: low / margin, high: high * margin, isLog: log, words }
      : { key, title, low: low - margin / 2, high: high + margin / 2, isLog: log, words };
  }
  return { key, title, low, high, isLog: log, words };
}

/** Where a value lies: 0 at the low end, 1 at the high one; NaN if nowhere. */
export function share({ low, high, isLog }: Axis, value: number): number {
  if (isLog) {
    return value > 0 ? Math.log(value / low) / Math.log(high / low) : Number.NaN;
  }
  return (value - low) / (high - low);
}

/** About `n` round values to mark. */
export function ticks({ low, high, isLog, words }: Axis, n: number): number[] {
  if (words.length) {
    const step = Math.max(1, Math.ceil(words.length / Math.max(1, n)));
    return words.flatMap((_, i) => (i % step ? [] : [i]));
  }
  if (isLog) {
    const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    if (to - from >= 1) {
      const step = Math.ceil((to - from + 1) / Math.max(2, n));
      return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 10 ** (from + i * step));
    }
  }
  const rough = (high - low) / Math.max(1, n);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find(each => each * power >= 0.7 * rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** A number for people: four digits, and a power of ten where it is far from 1. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) {
    return '';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? '∞' : '−∞';
  }
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) {
    return String(value).replace('-', '−');
  }
  const text =
    size >= 1e6 || (size > 0 && size < 1e-3)
      ? shortPower(value.toExponential(2))
      : String(Number(value.toPrecision(4)));
  return text.replaceAll('-', '−');
}

function shortPower(text: string): string {
  return text.replace(/\.?0+e/, 'e').replace('e+', 'e');
}

/** A value on an axis, in words. */
export function valueText({ words }: { words: readonly string[] }, value: number): string {
  return words.length ? (words[value] ?? '') : numberText(value);
}
