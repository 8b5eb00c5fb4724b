// The lines that tasks have printed, as far as they were asked for. Pure.

import { type LogLine, N_LINES_MAX, type Stream } from '../../protocol/messages';
import type { TaskGraph } from '../graph';

/**
 * Lines that come so long after their task's end were on their way; later ones are of threads that it has left behind.
 */
const UNDER_WAY_S = 2;

export type Sort = 'time' | 'task';

export class LogBook {
  lines: LogLine[] = [];
  /** Number of the next line. */
  next = 0;
  /** Lines that were forgotten before anybody asked for them. */
  nMissing = 0;
  /** Changes with the lines. */
  version = 0;

  /** Take an answer in; whether there was anything in it. */
  add({ first, lines }: { first: number; lines: LogLine[] }): boolean {
    this.nMissing += Math.max(0, first - this.next);
    this.next = Math.max(this.next, first) + lines.length;
    if (!lines.length) {
      return false;
    }
    this.lines =
      this.lines.length + lines.length > N_LINES_MAX
        ? [...this.lines, ...lines].slice(-N_LINES_MAX)
        : [...this.lines, ...lines];
    this.version++;
    return true;
  }
}

export interface LogQuery {
  /** Words, all of which are in the text or in the task's name. */
  words: string;
  /** Only this row's lines; null: of all. */
  row: number | null;
  stream: Stream | null;
  /** Nothing that was printed later. */
  until: number | null;
  /** Only what was printed then. */
  during: readonly [number, number] | null;
  sort: Sort;
}

export function select(
  book: LogBook,
  graph: TaskGraph,
  { words, row, stream, until, during, sort }: LogQuery
): LogLine[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = book.lines.filter(line => {
    const isOther = (row !== null && line.row !== row) || (stream !== null && line.stream !== stream);
    const at = printedAt(graph, line);
    if (isOther || (until !== null && at > until) || (during && (at < during[0] || at > during[1]))) {
      return false;
    }
    const text = wanted.length ? `${nameOf(graph, line)} ${line.text}`.toLowerCase() : '';
    return wanted.every(word => text.includes(word));
  });
  // Sorting is stable: a task's lines stay in order.
  return sort === 'time' ? found : [...found].sort((a, b) => a.row - b.row);
}

/**
 * When a line was printed, as far as that is known: it is stamped when it comes, which may be after its task's end was
 * told.
 */
export function printedAt(graph: TaskGraph, { row, at }: LogLine): number {
  const end = row >= 0 && row < graph.n ? graph.endOf(row) : NaN;
  return at > end && at <= end + UNDER_WAY_S ? end : at;
}

/** The task that printed a line; '' if unknown. */
export function nameOf(graph: TaskGraph, { row }: LogLine): string {
  return row >= 0 && row < graph.n ? graph.name(row) : '';
}
