// The tables of actors and of workers. Pure.

import { duration, integer } from '../../i18n/format';
import { actorInWords, type Life, lifeInWords } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { NO_WORKER, State } from '../../protocol/messages';
import type { TaskGraph } from '../graph';
import { isEnded } from '../rows';
import { NONE } from '../rows';
import { type Table } from './table';

export function actors(graph: TaskGraph, seen: ReadonlySet<number> | null): Table {
  const calls = (actor: number) => graph.calls.get(actor);
  const open = (actor: number) => (calls(actor)?.n ?? 0) - (calls(actor)?.ended ?? 0);
  return {
    items: [...graph.actors.keys()].filter(actor => !seen || seen.has(actor)),
    words: actor => [
      graph.actors.get(actor)!.name,
      graph.actors.get(actor)!.cls,
      actorInWords(graph.actors.get(actor)!)
    ],
    row: actor => currentCall(graph, actor) ?? calls(actor)?.last ?? NONE,
    columns: [
      {
        key: 'name',
        title: __('Actor'),
        grow: 1.4,
        from: 0,
        text: actor => graph.actors.get(actor)!.name || graph.actors.get(actor)!.cls
      },
      { key: 'cls', title: __('Class'), grow: 1, from: 460, text: actor => graph.actors.get(actor)!.cls },
      { key: 'state', title: __('State'), grow: 0.8, from: 0, text: actor => actorInWords(graph.actors.get(actor)!) },
      { key: 'now', title: __('Now'), grow: 1, from: 400, text: actor => nameOf(graph, currentCall(graph, actor)) },
      {
        key: 'calls',
        title: __('Calls'),
        grow: 0.6,
        from: 0,
        isNumber: true,
        text: actor => integer(calls(actor)?.n ?? 0),
        value: actor => calls(actor)?.n ?? 0
      },
      {
        key: 'open',
        title: __('Open calls'),
        grow: 0.6,
        from: 0,
        isNumber: true,
        text: actor => integer(open(actor)),
        value: open
      }
    ]
  };
}

/** The call that an actor works on; the oldest if there are several. */
function currentCall(graph: TaskGraph, actor: number): number | undefined {
  let found: number | undefined;
  const calls = graph.calls.get(actor);
  let open = calls ? calls.n - calls.ended : 0;
  for (let row = calls?.last ?? NONE; row !== NONE && open > 0; row = graph.previousCall[row]!) {
    open -= Number(!isEnded(graph.state[row]!));
    found = graph.state[row] === State.running ? row : found;
  }
  return found;
}

function nameOf(graph: TaskGraph, row: number | undefined): string {
  return row === undefined ? '' : graph.name(row);
}

export function workers(graph: TaskGraph, now: number, seen: ReadonlySet<number> | null): Table {
  const limit = graph.workerLimit;
  const done = new Float64Array(limit);
  const busy = new Float64Array(limit);
  const current = new Int32Array(limit).fill(NONE);
  for (let row = 0; row < graph.n; row++) {
    const worker = graph.worker[row]!;
    const seconds = graph.duration(row, now);
    if (worker !== NO_WORKER && !Number.isNaN(seconds)) {
      busy[worker] = busy[worker]! + seconds;
      done[worker] = done[worker]! + Number(isEnded(graph.state[row]!));
      current[worker] = graph.state[row] === State.running ? row : current[worker]!;
    }
  }
  const label = (worker: number) => graph.workers.get(worker)!;
  // On other machines only what a process runs for this session is known.
  const stateOf = (worker: number): Life => {
    const { state, node } = label(worker);
    if (state !== 'remote') {
      return state;
    }
    return graph.nodes.get(node)?.state === 'dead' ? 'dead' : current[worker]! < 0 ? 'idle' : 'busy';
  };
  const life = (worker: number) => lifeInWords({ state: stateOf(worker) });
  return {
    items: [...graph.workers]
      .filter(([worker, { pid }]) => pid > 0 && (!seen || seen.has(worker)))
      .map(([worker]) => worker),
    words: worker => [
      String(label(worker).pid),
      graph.nodeName(label(worker).node),
      life(worker),
      nameOf(graph, current[worker]! < 0 ? undefined : current[worker])
    ],
    row: worker => current[worker]!,
    columns: [
      {
        key: 'pid',
        title: __('Process'),
        grow: 0.8,
        from: 0,
        text: worker => String(label(worker).pid),
        value: worker => label(worker).pid
      },
      { key: 'state', title: __('State'), grow: 0.8, from: 0, text: life },
      ...(graph.isClustered
        ? [
            {
              key: 'node',
              title: __('Node'),
              grow: 0.9,
              from: 0,
              text: (worker: number) => graph.nodeName(label(worker).node)
            }
          ]
        : []),
      {
        key: 'now',
        title: __('Runs'),
        grow: 1.4,
        from: 0,
        text: worker => (current[worker]! < 0 ? '' : graph.name(current[worker]!))
      },
      {
        key: 'done',
        title: __('Tasks done'),
        grow: 0.8,
        from: 0,
        isNumber: true,
        text: worker => integer(done[worker]!),
        value: worker => done[worker]!
      },
      {
        key: 'busy',
        title: __('Busy'),
        grow: 0.8,
        from: 380,
        isNumber: true,
        text: worker => duration(busy[worker]!),
        value: worker => busy[worker]!
      }
    ]
  };
}
