// The session for other programs: Chrome's trace format, which Perfetto and chrome://tracing open. Pure.

import { Kind, State } from '../../protocol/messages';
import type { TaskGraph } from '../graph';
import { queuedFor } from '../phases';
import { spanOf } from './timeline';

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
  const nodes = new Set([0, ...graph.nodes.keys(), ...[...graph.workers.values()].map(({ node }) => node)]);
  const events: TraceEvent[] = [...nodes].map(node => ({
    name: 'process_name',
    ph: 'M',
    pid: node + 1,
    tid: 0,
    args: { name: node ? graph.nodeName(node) : `cellmesh ${graph.session}` }
  }));
  for (const [worker, { pid, node }] of graph.workers) {
    events.push({
      name: 'thread_name',
      ph: 'M',
      pid: node + 1,
      tid: worker,
      args: { name: pid ? `worker ${pid}` : 'under way' }
    });
  }
  for (let row = 0; row < graph.n; row++) {
    const span = graph.kind[row] === Kind.object ? null : spanOf(graph, row, now);
    if (span) {
      const [start, end] = span;
      const queued = queuedFor(graph, row, now);
      events.push({
        name: graph.name(row),
        ph: 'X',
        pid: graph.nodeOf(row) + 1,
        tid: graph.worker[row]!,
        ts: start * 1e6,
        dur: (end - start) * 1e6,
        cat: stateNames[graph.state[row]!]!,
        args: {
          row,
          cell: graph.cellLabel(row)?.label ?? '',
          state: stateNames[graph.state[row]!],
          loading_us: graph.loading(row) > 0 ? graph.loading(row) * 1e6 : 0,
          queued_us: Number.isNaN(queued) ? null : queued * 1e6,
          depends_on: [...graph.dependencies(row)],
          ...(Number.isNaN(graph.sent[row]!)
            ? {}
            : { sent_us: graph.sent[row]! * 1e6, home_us: graph.finished[row]! * 1e6 })
        }
      });
      if (graph.called[row]! <= end) {
        const loading = { ts: start * 1e6, dur: graph.loading(row) * 1e6 };
        events.push({
          name: 'arguments',
          ph: 'X',
          pid: 1,
          tid: graph.worker[row]!,
          ...loading,
          cat: 'arguments',
          args: { row }
        });
      }
    }
  }
  for (const { row, worker, sent, began, lost } of graph.losses) {
    const start = Number.isNaN(began) ? sent : began;
    const node = graph.workers.get(worker)?.node ?? 0;
    events.push({
      name: row < 0 ? 'lost' : graph.name(row),
      ph: 'X',
      pid: node + 1,
      tid: worker,
      ts: start * 1e6,
      dur: (lost - start) * 1e6,
      cat: 'lost',
      args: { row, state: 'lost' }
    });
  }
  for (const { row, node, comes, size, began, ended, complete } of graph.transfers) {
    events.push({
      name: comes ? 'from there' : 'to there',
      ph: 'X',
      pid: node + 1,
      tid: 0,
      ts: began * 1e6,
      dur: (Math.min(ended, now) - began) * 1e6,
      cat: 'transfer',
      args: { row, bytes: size, complete }
    });
  }
  return JSON.stringify({ displayTimeUnit: 'ms', traceEvents: events });
}
