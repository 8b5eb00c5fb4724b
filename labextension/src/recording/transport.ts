// A recorded session in place of a kernel: it answers hello, sends one snapshot, its experiments and runs of learning,
// and has the cards of failed tasks.

import type { Transport } from '../connection/connection';
import { __ } from '../i18n/translate';
import { type Buffer, isObject, type Json, values } from '../protocol/check';
import type { ReplyContent } from '../protocol/decode';
import { ProtocolError, Refusal } from '../protocol/errors';
import { type LogLine, NO_WORKER, RECORDING, type Request, State, VERSION } from '../protocol/messages';
import { type Column, readArrow } from './arrow';
import { RecordedLearning } from './learning';
import { RecordedTrials } from './trials';
import { unzip } from './zip';

interface Card {
  html: string;
  text: string;
}

export class RecordedTransport implements Transport {
  readonly isRecording = true;
  private receive: ((data: unknown, buffers: readonly Buffer[]) => void) | null = null;

  constructor(
    readonly label: string,
    private readonly header: Record<string, unknown>,
    private readonly buffers: readonly Buffer[],
    private readonly lines: readonly LogLine[],
    private readonly cards: ReadonlyMap<number, Card>,
    private readonly trials: RecordedTrials | null,
    private readonly learning: RecordedLearning | null
  ) {}

  async request(request: Request): Promise<ReplyContent> {
    switch (request.op) {
      case 'hello':
        return { status: 'ok', version: '', active: false, session: '', protocol: VERSION };
      case 'open':
      case 'resync':
        this.receive?.(this.header, this.buffers);
        this.receive?.({ type: 'experiments', v: VERSION, experiments: this.trials?.labels ?? [] }, []);
        this.receive?.({ type: 'learning', v: VERSION, runs: this.learning?.labels ?? [] }, []);
        return { status: 'ok' };
      case 'watch_trials': {
        const message = this.trials?.message(request.path, request.metric);
        if (message) {
          this.receive?.(message.data, message.buffers);
        }
        return { status: 'ok' };
      }
      case 'watch_learning':
        if (request.wanted) {
          this.learning?.messages.forEach(({ data, buffers }) => this.receive?.(data, buffers));
        }
        return { status: 'ok' };
      case 'close':
        return { status: 'ok' };
      case 'card':
        return { status: 'ok', ...(this.cards.get(request.row) ?? { html: '', text: '' }), data: {} };
      case 'logs':
        return {
          status: 'ok',
          first: Math.min(request.after, this.lines.length),
          lines: this.lines.slice(request.after).map(({ at, row, stream, pid, text }) => [at, row, stream, pid, text])
        };
      default:
        throw new Refusal('Recording', __('This is a recording: there is no kernel that could do that.'));
    }
  }

  subscribe(_commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void {
    this.receive = receive;
    return () => {
      this.receive = null;
    };
  }
}

/** Read a `.cellmesh` file. Throws `ProtocolError` when it is none, or of another version. */
export async function readRecording(file: Uint8Array<ArrayBuffer>, label: string): Promise<RecordedTransport> {
  const members = unzip(file);
  const member = (name: string) => {
    const found = members.get(name);
    if (!found) {
      throw new ProtocolError(`the file has no ${name}: it is no recording of cellmesh`);
    }
    return found;
  };
  const about = parse(member('run.json'));
  if (!isObject(about) || about['format'] !== RECORDING.format || !isObject(about['header'])) {
    throw new ProtocolError('the file is no recording of cellmesh');
  }
  const version = about['version'];
  const { oldest_version: oldest, version: newest } = RECORDING;
  if (!(Number.isInteger(version) && oldest <= (version as number) && (version as number) <= newest)) {
    throw new ProtocolError(
      `the recording is of version ${String(version)}, and this panel reads versions ${oldest} to ${newest}`
    );
  }
  const table = (name: string, columns: readonly string[]) =>
    columnsOf(readArrow(member(`${name}.arrow`)), name, columns);
  const { tables, trial_tables, learning_tables } = RECORDING;
  const [tasks, edges, lines, cards] = [
    table('tasks', tables.tasks),
    table('edges', tables.edges),
    table('lines', tables.lines),
    table('cards', tables.cards)
  ];
  const { experiments, learning } = about; // experiments of Tune and runs of learning, if there were any
  const trials =
    experiments === undefined
      ? null
      : new RecordedTrials(values(experiments, 'experiments'), {
          trials: table('trials', trial_tables.trials),
          settings: table('settings', trial_tables.settings),
          results: table('results', trial_tables.results),
          curves: table('curves', trial_tables.curves)
        });
  const runs =
    learning === undefined
      ? null
      : new RecordedLearning(values(learning, 'runs of learning'), {
          points: table('points', learning_tables.points),
          metrics: table('metrics', learning_tables.metrics)
        });
  const { updates, remote, calls, buffers } = snapshotOf(tasks, edges);
  const header = {
    ...renamed(about['header']),
    type: 'snapshot',
    n: 0,
    v: VERSION,
    new: tasks[0]!.length,
    updates,
    edges: edges[0]!.length,
    remote,
    calls,
    behind: 0
  };
  const rows = (columns: Column[]) =>
    Array.from({ length: columns[0]!.length }, (_, i) => columns.map(column => column[i]));
  return new RecordedTransport(
    label,
    header,
    buffers,
    rows(lines).map(([at, row, stream, pid, text]) => ({ at, row, stream, pid, text }) as LogLine),
    new Map(rows(cards).map(([row, html, text]) => [row as number, { html, text } as Card])),
    trials,
    runs
  );
}

/** The header with the words of today: remote workers were "elsewhere", and queued tasks "ready". */
function renamed(header: Json): Json {
  const { workers, counts } = header;
  const label = (each: unknown) =>
    isObject(each) && each['state'] === 'elsewhere' ? { ...each, state: 'remote' } : each;
  return {
    ...header,
    workers: Array.isArray(workers)
      ? workers.map((each: unknown) => (Array.isArray(each) ? [each[0], label(each[1])] : each))
      : workers,
    counts: isObject(counts) && 'ready' in counts ? { ...counts, queued: counts['ready'] } : counts
  };
}

function parse(json: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(json));
  } catch {
    throw new ProtocolError('the file is no recording of cellmesh');
  }
}

function columnsOf(table: Map<string, Column>, name: string, wanted: readonly string[]): Column[] {
  const found = wanted.map(column => table.get(column));
  if (found.some(column => column === undefined || column.length !== found[0]!.length)) {
    throw new ProtocolError(`the recording's table of ${name} is not complete`);
  }
  return found as Column[];
}

/** The buffers of a snapshot: all rows as they begin, then updates of those that have changed since. */
function snapshotOf(
  [fn, cell, actor, parent, kind, submitted, state, worker, started, finished, size, sent, ended, called]: Column[],
  edges: Column[]
) {
  const n = fn!.length;
  const changed: number[] = [];
  for (let row = 0; row < n; row++) {
    if (state![row] !== State.waiting || worker![row] !== NO_WORKER) {
      changed.push(row);
    }
  }
  const pick = <T extends Uint8Array | Uint16Array | Float64Array>(
    type: { from(of: number[], map: (row: number) => number): T },
    column: Column
  ) => type.from(changed, row => column[row] as number);
  const pairs = new Uint32Array(2 * edges[0]!.length);
  for (let e = 0; e < edges[0]!.length; e++) {
    pairs[2 * e] = edges[0]![e] as number;
    pairs[2 * e + 1] = edges[1]![e] as number;
  }
  const begun = changed.filter(row => !Number.isNaN(called![row] as number));
  const columns = new Uint32Array(5 * n);
  [fn!, cell!, actor!, parent!, kind!].forEach((column, i) => columns.set(column as Uint32Array, i * n));
  const remote = Uint32Array.from(changed.filter(row => !Number.isNaN(sent![row] as number)));
  const buffers = [
    columns,
    submitted as Float64Array,
    Uint32Array.from(changed),
    pick(Uint8Array, state!),
    pick(Uint16Array, worker!),
    pick(Float64Array, started!),
    pick(Float64Array, finished!),
    pick(Float64Array, size!),
    pairs,
    remote,
    Float64Array.from(
      [...remote].map(row => sent![row] as number).concat([...remote].map(row => ended![row] as number))
    ),
    Float64Array.from(begun.flatMap(row => [row, called![row] as number]))
  ];
  return { updates: changed.length, remote: remote.length, calls: begun.length, buffers };
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/\s+/g, '')), letter => letter.charCodeAt(0));
}
