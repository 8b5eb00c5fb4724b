// Shared by the tests: messages built by hand, and a pen that records its calls.

import { type Scenario, Simulation } from '../../dev/trace';
import type { Pen } from '../draw/pen';
import { apply } from '../model/apply';
import type { TaskGraph } from '../model/graph';
import {
  type GraphHeader,
  type GraphMessage,
  Kind,
  type NodeLabel,
  type Sample,
  VERSION,
  type WorkerLabel,
  type WorkerState
} from '../protocol/messages';

export interface Row {
  fn?: number;
  cell?: number;
  actor?: number;
  parent?: number;
  kind?: Kind;
  submitted?: number;
}

export interface Update {
  row: number;
  state: number;
  worker?: number;
  started?: number;
  finished?: number;
  size?: number;
  sent?: number;
  ended?: number;
  called?: number;
}

export interface Parts {
  rows?: Row[];
  updates?: Update[];
  edges?: [number, number][];
  header?: Partial<GraphHeader>;
}

export function message(
  type: 'snapshot' | 'delta',
  { rows = [], updates = [], edges = [], header = {} }: Parts = {}
): GraphMessage {
  const remote = updates.filter(({ sent }) => sent !== undefined);
  return {
    header: {
      type,
      v: VERSION,
      n: 0,
      session: 'abc',
      now: 1,
      tasks: rows.length,
      aggregated: 0,
      dropped: 0,
      behind: 0,
      functions: [],
      cells: [],
      actors: [],
      workers: [],
      nodes: [],
      samples: [],
      transfers: [],
      collectives: [],
      losses: [],
      lines: 0,
      errors: [],
      counts: { waiting: 0, queued: 0, running: 0, finished: 0, failed: 0, cancelled: 0 },
      resources: { total: {}, available: {} },
      store: { used: 0, capacity: 0, objects: 0 },
      new: rows.length,
      updates: updates.length,
      edges: edges.length,
      remote: remote.length,
      calls: updates.filter(update => update.called !== undefined).length,
      ...header
    },
    arrays: {
      newU32: Uint32Array.from([
        ...rows.map(row => row.fn ?? 0),
        ...rows.map(row => row.cell ?? 1),
        ...rows.map(row => (row.actor ?? -1) + 1),
        ...rows.map(row => (row.parent ?? -1) + 1),
        ...rows.map(row => row.kind ?? Kind.task)
      ]),
      newSubmitted: Float64Array.from(rows, row => row.submitted ?? 0),
      updateRow: Uint32Array.from(updates, update => update.row),
      updateState: Uint8Array.from(updates, update => update.state),
      updateWorker: Uint16Array.from(updates, update => update.worker ?? 255),
      updateStarted: Float64Array.from(updates, update => update.started ?? NaN),
      updateFinished: Float64Array.from(updates, update => update.finished ?? NaN),
      updateSize: Float64Array.from(updates, update => update.size ?? NaN),
      edges: Uint32Array.from(edges.flat()),
      remoteRow: Uint32Array.from(remote, ({ row }) => row),
      remoteTimes: Float64Array.from([...remote.map(({ sent }) => sent!), ...remote.map(({ ended }) => ended ?? NaN)]),
      calls: Float64Array.from(updates.flatMap(({ row, called }) => (called === undefined ? [] : [row, called])))
    }
  };
}

/** A worker that lives. */
export function workerLabel(pid: number, state: WorkerState): WorkerLabel {
  return { pid, state, since: 0, ended: Number.POSITIVE_INFINITY, node: 0 };
}

/** What this machine was doing at a time: nothing, but for what is said. */
export function sample(at: number, more: Partial<Sample> = {}): Sample {
  return { node: 0, at, load: 0, cpus: 0, gpus: 0, memory: 0, store: 0, disk: 0, queued: 0, ...more };
}

/** A machine that lives. */
export function machineLabel(name: string, more: Partial<NodeLabel> = {}): NodeLabel {
  return {
    name,
    cpus: 0,
    gpus: 0,
    memory: 0,
    store: 0,
    id: '',
    state: 'alive',
    reason: '',
    since: 0,
    ended: Number.POSITIVE_INFINITY,
    window: 0,
    dashboard: '',
    address: '',
    line: '',
    line_since: 0,
    ...more
  };
}

/** A message as it travels. */
export function onTheWire({ header, arrays }: GraphMessage, n: number): [Record<string, unknown>, ArrayBuffer[]] {
  return [{ ...header, n }, Object.values(arrays).map(column => (column as Uint8Array<ArrayBuffer>).slice().buffer)];
}

/** Play a scenario into a graph until it is over, or until a time. */
export function play(graph: TaskGraph, scenario: Scenario, until = 1e6, stepS = 0.05): void {
  const simulation = new Simulation(scenario);
  for (let now = 0; now <= until && !simulation.isOver; now += stepS) {
    apply(graph, simulation.step(now), now * 1000);
  }
}

/** A pen that keeps a list of what was drawn; numbers are rounded, every letter is 6 wide. */
export function recorder(): { pen: Pen; commands: string[] } {
  const commands: string[] = [];
  const show = (value: unknown): string =>
    typeof value === 'number'
      ? String(Math.round(value * 10) / 10)
      : Array.isArray(value)
        ? `[${value.map(show).join(' ')}]`
        : String(value);
  const state: Record<string, unknown> = { globalAlpha: 1 };
  const pen = new Proxy(state, {
    get: (target, name: string) => {
      if (name === 'measureText') {
        return (text: string) => ({ width: 6 * text.length });
      }
      return name in target
        ? target[name]
        : (...args: unknown[]) => void commands.push([name, ...args.map(show)].join(' '));
    },
    set: (target, name: string, value: unknown) => {
      if (target[name] !== value) {
        target[name] = value;
        commands.push(`${name} = ${show(value)}`);
      }
      return true;
    }
  });
  return { pen: pen as unknown as Pen, commands };
}
