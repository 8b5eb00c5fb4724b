// The session as others can read it: Chrome's trace format, which Perfetto and chrome://tracing open. Pure.

import type { TaskGraph } from './model';
import { Kind, State } from './protocol';
import { readyAt, spanOf } from './timeline';

interface TraceEvent {
  name: string;
  ph: 'X' | 'M';
  pid: number;
  tid: number;
  ts?: number;
  dur?: number;
  cat?: string;
  args: Record<string, unknown>;
}

/** Every row that has run, as complete events in microseconds, one thread for each worker. */
export function chromeTrace(graph: TaskGraph, now: number): string {
  const stateNames = Object.fromEntries(Object.entries(State).map(([name, state]) => [state, name]));
  const events: TraceEvent[] = [{ name: 'process_name', ph: 'M', pid: 1, tid: 0, args: { name: `cellmesh ${graph.session}` } }];
  for (const [worker, { pid }] of graph.workers) {
    events.push({ name: 'thread_name', ph: 'M', pid: 1, tid: worker, args: { name: `worker ${pid}` } });
  }
  for (let row = 0; row < graph.n; row++) {
    const span = graph.kind[row] === Kind.object ? null : spanOf(graph, row, now);
    if (span) {
      const [start, end] = span;
      const queued = start - readyAt(graph, row);
      events.push({
        name: graph.name(row),
        ph: 'X',
        pid: 1,
        tid: graph.worker[row]!,
        ts: start * 1e6,
        dur: (end - start) * 1e6,
        cat: stateNames[graph.state[row]!]!,
        args: {
          row,
          cell: graph.cellLabel(row)?.label ?? '',
          state: stateNames[graph.state[row]!],
          queued_us: Number.isNaN(queued) ? null : Math.max(0, queued * 1e6),
          depends_on: [...graph.dependencies(row)]
        }
      });
    }
  }
  return JSON.stringify({ displayTimeUnit: 'ms', traceEvents: events });
}
