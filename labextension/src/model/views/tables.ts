// The session as tables: which rows there are, in which order, and what stands in each column. Pure.
//
// A row is a number: a row of the graph, an actor, or a worker. Sorting goes by numbers too (texts by their rank among
// the distinct ones), so that a hundred thousand rows are put in order between two frames.

import { duration, integer, size } from '../../i18n/format';
import { stateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { Kind, NO_WORKER, State } from '../../protocol/messages';
import { failedThrough, failureInWords, rootCause } from '../failures';
import type { TaskGraph } from '../graph';
import { phasesOf } from '../phases';
import { numberOf } from '../rows';
import { NONE } from '../rows';
import { actors, workers } from './process_tables';
import { type Table } from './table';

export type TableName = 'tasks' | 'objects' | 'actors' | 'workers';

export function tableOf(
  graph: TaskGraph,
  name: TableName,
  now: number,
  brush: readonly [number, number] | null,
  filter: State | null
): Table {
  const isSeen = (row: number) => !brush || graph.ranIn(row, brush);
  switch (name) {
    case 'tasks':
      return tasks(
        graph,
        now,
        row => graph.kind[row] !== Kind.object && (filter === null || graph.state[row] === filter) && isSeen(row)
      );
    case 'objects':
      return objects(graph, row => isSeen(row));
    case 'actors':
      return actors(graph, brush && graph.seenIn(brush, row => graph.actor[row]! - 1));
    case 'workers':
      return workers(graph, now, brush && graph.seenIn(brush, row => graph.worker[row]!));
  }
}

function rowsWhere(graph: TaskGraph, isWanted: (row: number) => boolean): number[] {
  const rows: number[] = [];
  for (let row = 0; row < graph.n; row++) {
    if (isWanted(row)) {
      rows.push(row);
    }
  }
  return rows;
}

function actorName(graph: TaskGraph, actor: number): string {
  const label = graph.actors.get(actor);
  return label ? label.name || label.cls : '';
}

/** The names of the machines where rows ran; '' where there is only one. */
function nodeNames(graph: TaskGraph): (row: number) => string {
  return graph.isClustered
    ? row => (graph.worker[row] === NO_WORKER ? '' : graph.nodeName(graph.nodeOf(row)))
    : () => '';
}

/** Words of a row that many rows share; looked up once for each. */
function wordsOf(graph: TaskGraph): (row: number) => string[] {
  const where = nodeNames(graph);
  return row => [
    graph.name(row),
    where(row),
    graph.cellLabel(row)?.label ?? '',
    actorName(graph, graph.actor[row]! - 1),
    stateName(graph.state[row] as State)
  ];
}

function tasks(graph: TaskGraph, now: number, isWanted: (row: number) => boolean): Table {
  const inputs = (row: number) => phasesOf(graph, row, now).inputs;
  const queued = (row: number) => phasesOf(graph, row, now).queued;
  const isInherited = (row: number) => failedThrough(graph, row) !== NONE;
  return {
    items: rowsWhere(graph, isWanted),
    words: wordsOf(graph),
    row: row => row,
    state: row => graph.state[row] as State,
    isInherited,
    hint: row => failureInWords(graph, row),
    columns: [
      {
        key: 'name',
        title: __('Task'),
        grow: 1.4,
        from: 0,
        text: row => graph.name(row),
        value: rank(
          graph,
          row => graph.fn[row]!,
          row => graph.name(row)
        )
      },
      {
        key: 'cell',
        title: __('Cell'),
        grow: 0.7,
        from: 420,
        text: row => graph.cellLabel(row)?.label ?? '',
        value: row => graph.cell[row]!
      },
      {
        key: 'state',
        title: __('State'),
        grow: 1.3,
        from: 0,
        text: row =>
          isInherited(row)
            ? __('failed via %1', graph.name(rootCause(graph, row)))
            : stateName(graph.state[row] as State),
        value: row => graph.state[row]! + (isInherited(row) ? 0.5 : 0)
      },
      {
        key: 'inputs',
        title: __('For inputs'),
        grow: 0.7,
        from: 760,
        isNumber: true,
        text: row => duration(inputs(row)),
        value: inputs
      },
      {
        key: 'queued',
        title: __('Queued'),
        grow: 0.7,
        from: 520,
        isNumber: true,
        text: row => duration(queued(row)),
        value: queued
      },
      {
        key: 'loaded',
        title: __('Arguments'),
        grow: 0.7,
        from: 680,
        isNumber: true,
        text: row => duration(graph.loading(row)),
        value: row => graph.loading(row)
      },
      {
        key: 'ran',
        title: __('Ran'),
        grow: 0.7,
        from: 0,
        isNumber: true,
        text: row => duration(graph.duration(row, now)),
        value: row => graph.duration(row, now)
      },
      {
        key: 'size',
        title: __('Result'),
        grow: 0.7,
        from: 460,
        isNumber: true,
        text: row => size(graph.size[row]!),
        value: row => graph.size[row]!
      },
      ...(graph.isClustered
        ? [
            {
              key: 'node',
              title: __('Node'),
              grow: 0.9,
              from: 360,
              text: nodeNames(graph),
              value: (row: number) => (graph.worker[row] === NO_WORKER ? Number.NaN : graph.nodeOf(row))
            }
          ]
        : []),
      {
        key: 'worker',
        title: __('Worker'),
        grow: 0.7,
        from: 600,
        isNumber: true,
        text: row => pidOf(graph, row),
        value: row => graph.worker[row]!
      }
    ]
  };
}

function pidOf(graph: TaskGraph, row: number): string {
  const worker = graph.worker[row]!;
  return worker === NO_WORKER ? '' : String(graph.workers.get(worker)?.pid || '');
}

/** Numbers by which texts are in alphabetical order, given a number that stands for each distinct text. */
function rank(
  graph: TaskGraph,
  numberIn: (row: number) => number,
  textOf: (row: number) => string
): (row: number) => number {
  let ranks: Map<number, number> | null = null;
  return row => {
    if (!ranks) {
      const texts = new Map<number, string>();
      for (let at = 0; at < graph.n; at++) {
        const number = numberIn(at);
        if (!texts.has(number)) {
          texts.set(number, textOf(at));
        }
      }
      const sorted = [...texts].sort(([, a], [, b]) => a.localeCompare(b));
      ranks = new Map(sorted.map(([number], at) => [number, at]));
    }
    return ranks.get(numberIn(row)) ?? NONE;
  };
}

/** Values that take room: what puts and tasks have made. */
function objects(graph: TaskGraph, isWanted: (row: number) => boolean): Table {
  const isPut = (row: number) => graph.kind[row] === Kind.object;
  return {
    items: rowsWhere(graph, row => (isPut(row) || graph.size[row]! > 0) && isWanted(row)),
    words: wordsOf(graph),
    row: row => row,
    columns: [
      {
        key: 'name',
        title: __('Made by'),
        grow: 1.6,
        from: 0,
        text: row => graph.name(row),
        value: rank(
          graph,
          row => (isPut(row) ? NONE : graph.fn[row]!),
          row => graph.name(row)
        )
      },
      {
        key: 'cell',
        title: __('Cell'),
        grow: 0.8,
        from: 380,
        text: row => graph.cellLabel(row)?.label ?? '',
        value: row => graph.cell[row]!
      },
      {
        key: 'size',
        title: __('Size'),
        grow: 0.8,
        from: 0,
        isNumber: true,
        text: row => size(graph.size[row]!),
        value: row => graph.size[row]!
      },
      {
        key: 'made',
        title: __('Made at'),
        grow: 0.8,
        from: 0,
        isNumber: true,
        text: row => duration(graph.finished[row]!),
        value: row => graph.finished[row]!
      },
      {
        key: 'users',
        title: __('Needed by'),
        grow: 0.8,
        from: 480,
        isNumber: true,
        text: row => integer(numberOf(graph.dependents(row))),
        value: row => numberOf(graph.dependents(row))
      }
    ]
  };
}
