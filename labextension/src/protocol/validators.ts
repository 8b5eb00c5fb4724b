// Made from schema.json by `npm run generate`; do not edit.

import {
  type Buffer,
  column,
  count,
  dictionary,
  flag,
  integer,
  list,
  number,
  oneOf,
  pair,
  record,
  text,
  values
} from './check';
import {
  ACTOR_STATES,
  type ActorLabel,
  type CancelReply,
  type CardReply,
  type CellLabel,
  type Collective,
  type Counts,
  type ExperimentLabel,
  type Experiments,
  type GraphArrays,
  type GraphHeader,
  type HelloReply,
  type Learning,
  type LearningArrays,
  type LearningLabel,
  type LearningPoints,
  LINE_STATES,
  type LogLine,
  type LogsReply,
  type Loss,
  type MemoryReply,
  MODES,
  NODE_STATES,
  type NodeLabel,
  OBJECT_STATES,
  type ObjectFacts,
  type Ok,
  OUTCOMES,
  type Parameter,
  PLACES,
  type Refusal,
  type Resources,
  type RetryReply,
  RUN_STATES,
  type Sample,
  type SaveReply,
  type StackReply,
  type Store,
  STREAMS,
  type Transfer,
  type TrialArrays,
  type TrialCounts,
  type Trials,
  type TrialTaskReply,
  type TrialText,
  WORKER_STATES,
  type WorkerLabel
} from './messages';

export function decodeActorLabel(value: unknown, what = 'ActorLabel'): ActorLabel {
  const from = record(value, what);
  return {
    name: text(from['name'], 'name'),
    cls: text(from['cls'], 'cls'),
    state: oneOf(from['state'], 'state', ACTOR_STATES),
    pid: integer(from['pid'], 'pid'),
    crashed: from['crashed'] === undefined ? false : flag(from['crashed'], 'crashed'),
    group: from['group'] === undefined ? '' : text(from['group'], 'group'),
    rank: from['rank'] === undefined ? -1 : integer(from['rank'], 'rank')
  };
}

export function decodeCancelReply(value: unknown, what = 'CancelReply'): CancelReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    outcome: oneOf(from['outcome'], 'outcome', OUTCOMES)
  };
}

export function decodeCardReply(value: unknown, what = 'CardReply'): CardReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    html: text(from['html'], 'html'),
    text: text(from['text'], 'text'),
    data: record(from['data'], 'data')
  };
}

export function decodeCellLabel(value: unknown, what = 'CellLabel'): CellLabel {
  const from = record(value, what);
  return { label: text(from['label'], 'label'), id: text(from['id'], 'id') };
}

export function decodeCollective(value: unknown, what = 'Collective'): Collective {
  const from = values(value, what);
  return {
    worker: count(from[0], 'worker'),
    began: number(from[1], 'began'),
    ended: from[2] === null ? Infinity : number(from[2], 'ended'),
    inside: number(from[3], 'inside'),
    calls: count(from[4], 'calls'),
    what: text(from[5], 'what')
  };
}

export function decodeCounts(value: unknown, what = 'Counts'): Counts {
  const from = record(value, what);
  return {
    waiting: count(from['waiting'], 'waiting'),
    queued: count(from['queued'], 'queued'),
    running: count(from['running'], 'running'),
    finished: count(from['finished'], 'finished'),
    failed: count(from['failed'], 'failed'),
    cancelled: count(from['cancelled'], 'cancelled')
  };
}

export function decodeExperimentLabel(value: unknown, what = 'ExperimentLabel'): ExperimentLabel {
  const from = record(value, what);
  return {
    path: text(from['path'], 'path'),
    name: text(from['name'], 'name'),
    metric: text(from['metric'], 'metric'),
    mode: oneOf(from['mode'], 'mode', MODES),
    began: number(from['began'], 'began'),
    ended: from['ended'] === null ? Infinity : number(from['ended'], 'ended'),
    is_failed: flag(from['is_failed'], 'is_failed'),
    why: text(from['why'], 'why'),
    counts: decodeTrialCounts(from['counts'], 'counts'),
    best: integer(from['best'], 'best'),
    best_value: from['best_value'] === null ? NaN : number(from['best_value'], 'best_value')
  };
}

export function decodeExperiments(value: unknown, what = 'Experiments'): Experiments {
  const from = record(value, what);
  return {
    type: oneOf(from['type'], 'type', ['experiments'] as const),
    v: integer(from['v'], 'v'),
    experiments: list(from['experiments'], 'experiments', decodeExperimentLabel)
  };
}

export function decodeHelloReply(value: unknown, what = 'HelloReply'): HelloReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    version: text(from['version'], 'version'),
    active: flag(from['active'], 'active'),
    session: text(from['session'], 'session'),
    protocol: integer(from['protocol'], 'protocol')
  };
}

export function decodeLearning(value: unknown, what = 'Learning'): Learning {
  const from = record(value, what);
  return {
    type: oneOf(from['type'], 'type', ['learning'] as const),
    v: integer(from['v'], 'v'),
    runs: list(from['runs'], 'runs', decodeLearningLabel)
  };
}

export function decodeLearningLabel(value: unknown, what = 'LearningLabel'): LearningLabel {
  const from = record(value, what);
  return {
    run: count(from['run'], 'run'),
    title: text(from['title'], 'title'),
    settings: text(from['settings'], 'settings'),
    state: oneOf(from['state'], 'state', RUN_STATES),
    why: text(from['why'], 'why'),
    began: number(from['began'], 'began'),
    ended: from['ended'] === null ? Infinity : number(from['ended'], 'ended'),
    goal: text(from['goal'], 'goal'),
    goal_value: from['goal_value'] === null ? NaN : number(from['goal_value'], 'goal_value'),
    results: count(from['results'], 'results')
  };
}

export function decodeLearningPoints(value: unknown, what = 'LearningPoints'): LearningPoints {
  const from = record(value, what);
  return {
    type: oneOf(from['type'], 'type', ['learning_points'] as const),
    v: integer(from['v'], 'v'),
    n: count(from['n'], 'n'),
    run: count(from['run'], 'run'),
    metrics: list(from['metrics'], 'metrics', text),
    first: count(from['first'], 'first'),
    points: count(from['points'], 'points'),
    values: count(from['values'], 'values')
  };
}

export function decodeLogLine(value: unknown, what = 'LogLine'): LogLine {
  const from = values(value, what);
  return {
    at: number(from[0], 'at'),
    row: integer(from[1], 'row'),
    stream: oneOf(from[2], 'stream', STREAMS),
    pid: integer(from[3], 'pid'),
    text: text(from[4], 'text')
  };
}

export function decodeLogsReply(value: unknown, what = 'LogsReply'): LogsReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    first: count(from['first'], 'first'),
    lines: list(from['lines'], 'lines', decodeLogLine)
  };
}

export function decodeLoss(value: unknown, what = 'Loss'): Loss {
  const from = values(value, what);
  return {
    row: integer(from[0], 'row'),
    worker: count(from[1], 'worker'),
    sent: number(from[2], 'sent'),
    began: from[3] === null ? NaN : number(from[3], 'began'),
    lost: number(from[4], 'lost')
  };
}

export function decodeMemoryReply(value: unknown, what = 'MemoryReply'): MemoryReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    objects: list(from['objects'], 'objects', decodeObjectFacts),
    n_objects: count(from['n_objects'], 'n_objects'),
    used: count(from['used'], 'used'),
    capacity: count(from['capacity'], 'capacity'),
    peak: count(from['peak'], 'peak'),
    disk: count(from['disk'], 'disk'),
    n_on_disk: count(from['n_on_disk'], 'n_on_disk')
  };
}

export function decodeNodeLabel(value: unknown, what = 'NodeLabel'): NodeLabel {
  const from = record(value, what);
  return {
    name: text(from['name'], 'name'),
    cpus: number(from['cpus'], 'cpus'),
    gpus: number(from['gpus'], 'gpus'),
    memory: count(from['memory'], 'memory'),
    store: count(from['store'], 'store'),
    id: text(from['id'], 'id'),
    state: oneOf(from['state'], 'state', NODE_STATES),
    reason: text(from['reason'], 'reason'),
    since: number(from['since'], 'since'),
    ended: from['ended'] === null ? Infinity : number(from['ended'], 'ended'),
    window: from['window'] === undefined ? 0 : count(from['window'], 'window'),
    dashboard: from['dashboard'] === undefined ? '' : text(from['dashboard'], 'dashboard'),
    address: from['address'] === undefined ? '' : text(from['address'], 'address'),
    line: from['line'] === undefined ? '' : oneOf(from['line'], 'line', LINE_STATES),
    line_since: from['line_since'] === undefined ? 0 : number(from['line_since'], 'line_since')
  };
}

export function decodeObjectFacts(value: unknown, what = 'ObjectFacts'): ObjectFacts {
  const from = values(value, what);
  return {
    row: integer(from[0], 'row'),
    size: count(from[1], 'size'),
    place: oneOf(from[2], 'place', PLACES),
    state: oneOf(from[3], 'state', OBJECT_STATES),
    made_by: text(from[4], 'made_by'),
    holders: list(from[5], 'holders', text),
    variables: list(from[6], 'variables', text),
    users: count(from[7], 'users')
  };
}

export function decodeOk(value: unknown, what = 'Ok'): Ok {
  const from = record(value, what);
  return { status: oneOf(from['status'], 'status', ['ok'] as const) };
}

export function decodeParameter(value: unknown, what = 'Parameter'): Parameter {
  const from = record(value, what);
  return { name: text(from['name'], 'name'), words: list(from['words'], 'words', text) };
}

export function decodeRefusal(value: unknown, what = 'Refusal'): Refusal {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['error'] as const),
    ename: text(from['ename'], 'ename'),
    evalue: text(from['evalue'], 'evalue')
  };
}

export function decodeResources(value: unknown, what = 'Resources'): Resources {
  const from = record(value, what);
  return {
    total: dictionary(from['total'], 'total', number),
    available: dictionary(from['available'], 'available', number)
  };
}

export function decodeRetryReply(value: unknown, what = 'RetryReply'): RetryReply {
  const from = record(value, what);
  return { status: oneOf(from['status'], 'status', ['ok'] as const), bound: list(from['bound'], 'bound', text) };
}

export function decodeSample(value: unknown, what = 'Sample'): Sample {
  const from = values(value, what);
  return {
    node: count(from[0], 'node'),
    at: number(from[1], 'at'),
    load: number(from[2], 'load'),
    cpus: number(from[3], 'cpus'),
    gpus: number(from[4], 'gpus'),
    memory: count(from[5], 'memory'),
    store: count(from[6], 'store'),
    disk: count(from[7], 'disk'),
    queued: count(from[8], 'queued')
  };
}

export function decodeSaveReply(value: unknown, what = 'SaveReply'): SaveReply {
  const from = record(value, what);
  return {
    status: oneOf(from['status'], 'status', ['ok'] as const),
    path: text(from['path'], 'path'),
    size: count(from['size'], 'size')
  };
}

export function decodeStackReply(value: unknown, what = 'StackReply'): StackReply {
  const from = record(value, what);
  return { status: oneOf(from['status'], 'status', ['ok'] as const), text: text(from['text'], 'text') };
}

export function decodeStore(value: unknown, what = 'Store'): Store {
  const from = record(value, what);
  return {
    used: count(from['used'], 'used'),
    capacity: count(from['capacity'], 'capacity'),
    objects: count(from['objects'], 'objects')
  };
}

export function decodeTransfer(value: unknown, what = 'Transfer'): Transfer {
  const from = values(value, what);
  return {
    row: integer(from[0], 'row'),
    node: count(from[1], 'node'),
    comes: flag(from[2], 'comes'),
    size: count(from[3], 'size'),
    began: number(from[4], 'began'),
    ended: from[5] === null ? Infinity : number(from[5], 'ended'),
    complete: flag(from[6], 'complete')
  };
}

export function decodeTrialCounts(value: unknown, what = 'TrialCounts'): TrialCounts {
  const from = record(value, what);
  return {
    pending: count(from['pending'], 'pending'),
    running: count(from['running'], 'running'),
    paused: count(from['paused'], 'paused'),
    ended: count(from['ended'], 'ended'),
    failed: count(from['failed'], 'failed')
  };
}

export function decodeTrialTaskReply(value: unknown, what = 'TrialTaskReply'): TrialTaskReply {
  const from = record(value, what);
  return { status: oneOf(from['status'], 'status', ['ok'] as const), row: integer(from['row'], 'row') };
}

export function decodeTrialText(value: unknown, what = 'TrialText'): TrialText {
  const from = values(value, what);
  return { trial: count(from[0], 'trial'), why: text(from[1], 'why'), error: text(from[2], 'error') };
}

export function decodeTrials(value: unknown, what = 'Trials'): Trials {
  const from = record(value, what);
  return {
    type: oneOf(from['type'], 'type', ['trials'] as const),
    v: integer(from['v'], 'v'),
    n: count(from['n'], 'n'),
    path: text(from['path'], 'path'),
    metric: text(from['metric'], 'metric'),
    metrics: list(from['metrics'], 'metrics', text),
    parameters: list(from['parameters'], 'parameters', decodeParameter),
    texts: list(from['texts'], 'texts', decodeTrialText),
    told: list(from['told'], 'told', text),
    behind: count(from['behind'], 'behind'),
    changed: count(from['changed'], 'changed'),
    values: count(from['values'], 'values'),
    settings: count(from['settings'], 'settings'),
    points: count(from['points'], 'points')
  };
}

export function decodeWorkerLabel(value: unknown, what = 'WorkerLabel'): WorkerLabel {
  const from = record(value, what);
  return {
    pid: integer(from['pid'], 'pid'),
    state: oneOf(from['state'], 'state', WORKER_STATES),
    since: number(from['since'], 'since'),
    ended: from['ended'] === null ? Infinity : number(from['ended'], 'ended'),
    node: count(from['node'], 'node')
  };
}

export function decodeGraphHeader(value: unknown, what = 'GraphHeader'): GraphHeader {
  const from = record(value, what);
  return {
    type: oneOf(from['type'], 'type', ['snapshot', 'delta'] as const),
    v: integer(from['v'], 'v'),
    n: count(from['n'], 'n'),
    session: text(from['session'], 'session'),
    now: number(from['now'], 'now'),
    tasks: count(from['tasks'], 'tasks'),
    aggregated: from['aggregated'] === undefined ? 0 : count(from['aggregated'], 'aggregated'),
    dropped: count(from['dropped'], 'dropped'),
    behind: count(from['behind'], 'behind'),
    functions: list(from['functions'], 'functions', (value, what) => pair(value, what, count, text)),
    cells: list(from['cells'], 'cells', (value, what) => pair(value, what, count, decodeCellLabel)),
    actors: list(from['actors'], 'actors', (value, what) => pair(value, what, count, decodeActorLabel)),
    workers: list(from['workers'], 'workers', (value, what) => pair(value, what, count, decodeWorkerLabel)),
    nodes: list(from['nodes'], 'nodes', (value, what) => pair(value, what, count, decodeNodeLabel)),
    samples: list(from['samples'], 'samples', decodeSample),
    transfers: list(from['transfers'], 'transfers', (value, what) => pair(value, what, count, decodeTransfer)),
    losses: list(from['losses'], 'losses', decodeLoss),
    collectives:
      from['collectives'] === undefined
        ? []
        : list(from['collectives'], 'collectives', (value, what) => pair(value, what, count, decodeCollective)),
    lines: count(from['lines'], 'lines'),
    errors:
      from['errors'] === undefined
        ? []
        : list(from['errors'], 'errors', (value, what) => pair(value, what, count, text)),
    counts: decodeCounts(from['counts'], 'counts'),
    resources: decodeResources(from['resources'], 'resources'),
    store: decodeStore(from['store'], 'store'),
    new: count(from['new'], 'new'),
    updates: count(from['updates'], 'updates'),
    edges: count(from['edges'], 'edges'),
    remote: count(from['remote'], 'remote'),
    calls: count(from['calls'], 'calls')
  };
}

/** The buffers of a graph message, as its header announces them. */
export function decodeArrays(header: GraphHeader, buffers: readonly Buffer[]): GraphArrays {
  return {
    newU32: column(Uint32Array, buffers[0], 5 * header.new, 'new_u32'),
    newSubmitted: column(Float64Array, buffers[1], header.new, 'new_submitted'),
    updateRow: column(Uint32Array, buffers[2], header.updates, 'update_row'),
    updateState: column(Uint8Array, buffers[3], header.updates, 'update_state'),
    updateWorker: column(Uint16Array, buffers[4], header.updates, 'update_worker'),
    updateStarted: column(Float64Array, buffers[5], header.updates, 'update_started'),
    updateFinished: column(Float64Array, buffers[6], header.updates, 'update_finished'),
    updateSize: column(Float64Array, buffers[7], header.updates, 'update_size'),
    edges: column(Uint32Array, buffers[8], 2 * header.edges, 'edges'),
    remoteRow: column(Uint32Array, buffers[9], header.remote, 'remote_row'),
    remoteTimes: column(Float64Array, buffers[10], 2 * header.remote, 'remote_times'),
    calls: column(Float64Array, buffers[11], 2 * header.calls, 'calls')
  };
}

/** The buffers of a message of trials, as its header announces them. */
export function decodeTrialArrays(header: Trials, buffers: readonly Buffer[]): TrialArrays {
  return {
    trial: column(Uint32Array, buffers[0], header.changed, 'trial'),
    state: column(Uint8Array, buffers[1], header.changed, 'state'),
    iteration: column(Uint32Array, buffers[2], header.changed, 'iteration'),
    times: column(Float64Array, buffers[3], 3 * header.changed, 'times'),
    metrics: column(Float64Array, buffers[4], header.values, 'metrics'),
    parameters: column(Float64Array, buffers[5], header.settings, 'parameters'),
    lengths: column(Uint32Array, buffers[6], header.changed, 'lengths'),
    at: column(Float32Array, buffers[7], header.points, 'at'),
    x: column(Float32Array, buffers[8], header.points, 'x'),
    y: column(Float32Array, buffers[9], header.points, 'y')
  };
}

/** The buffers of a message of points, as its header announces them. */
export function decodeLearningArrays(header: LearningPoints, buffers: readonly Buffer[]): LearningArrays {
  return {
    values: column(Float64Array, buffers[0], header.values, 'values')
  };
}
