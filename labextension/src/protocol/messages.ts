// Made from schema.json by `npm run generate`; do not edit.

export const VERSION = 6;
export const COMM_TARGET = 'cellmesh';
export const ANNOUNCE_TARGET = 'cellmesh.announce';
export const REQUEST_TYPE = 'cellmesh_request';
export const NO_WORKER = 255;
/** Processes of other machines have numbers from this one on. */
export const FIRST_REMOTE_WORKER = 256;
/** What the kernel calls a function whose name it does not know. */
export const UNKNOWN = '?';
/** What the kernel calls objects that no task has made. */
export const PUT_NAMES = ['put', 'argument', 'item'] as const;
/** The kernel keeps so many samples of each machine. */
export const N_SAMPLES_MAX = 1200;
/** Kernel and panel keep so many lines that tasks have printed. */
export const N_LINES_MAX = 50000;
/** Kernel and panel keep so many collectives of ranks. */
export const N_COLLECTIVES_MAX = 20000;

/** The format of `.cellmesh` files, and the columns of their tables. */
export const RECORDING = {
  format: 'cellmesh run',
  version: 3,
  oldest_version: 2,
  tables: {
    tasks: [
      'function',
      'cell',
      'actor',
      'parent',
      'kind',
      'submitted',
      'state',
      'worker',
      'started',
      'finished',
      'size',
      'sent',
      'ended',
      'called'
    ],
    edges: ['source', 'target'],
    lines: ['at', 'row', 'stream', 'pid', 'text'],
    cards: ['row', 'html', 'text']
  },
  trial_tables: {
    trials: ['experiment', 'trial', 'state', 'iteration', 'suggested', 'began', 'ended'],
    settings: ['experiment', 'trial', 'parameter', 'value'],
    results: ['experiment', 'trial', 'metric', 'value'],
    curves: ['experiment', 'trial', 'metric', 'at', 'iteration', 'value']
  },
  learning_tables: { points: ['run', 'at'], metrics: ['run', 'point', 'metric', 'value'] }
} as const;

/** A task's state. Put objects are born finished. */
export const State = { waiting: 0, queued: 1, running: 2, finished: 3, failed: 4, cancelled: 5, retrying: 6 } as const;
export type State = (typeof State)[keyof typeof State];

export const N_STATES = 7;

/** What has been decided of a trial. */
export const TrialState = { pending: 0, running: 1, paused: 2, ended: 3, failed: 4 } as const;
export type TrialState = (typeof TrialState)[keyof typeof TrialState];

/** What a row is. */
export const Kind = { task: 0, actor_creation: 1, actor_call: 2, object: 3 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

export const ACTOR_STATES = ['pending', 'alive', 'restarting', 'dead'] as const;
export type ActorState = (typeof ACTOR_STATES)[number];

export const LINE_STATES = ['', 'connected', 'slow', 'broken', 'lost'] as const;
export type LineState = (typeof LINE_STATES)[number];

export const MODES = ['max', 'min'] as const;
export type Mode = (typeof MODES)[number];

export const NODE_STATES = ['alive', 'draining', 'dead'] as const;
export type NodeState = (typeof NODE_STATES)[number];

export const OBJECT_STATES = ['pending', 'ready', 'error', 'failed'] as const;
export type ObjectState = (typeof OBJECT_STATES)[number];

export const OUTCOMES = ['finished', 'pending', 'running'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const PLACES = ['memory', 'shared', 'disk', 'slot'] as const;
export type Place = (typeof PLACES)[number];

export const RUN_STATES = ['diverged', 'failed', 'paused', 'reached', 'running', 'stopped'] as const;
export type RunState = (typeof RUN_STATES)[number];

export const STREAMS = ['stderr', 'stdout'] as const;
export type Stream = (typeof STREAMS)[number];

export const WORKER_STATES = ['actor', 'blocked', 'busy', 'dead', 'idle', 'remote'] as const;
export type WorkerState = (typeof WORKER_STATES)[number];

/**
 * An actor: its name (``""`` if none), class and state.
 *
 * `pid` is that of its latest process, 0 if there was none; `crashed`: it died because that ended unasked.
 * Members of a group have a `rank` and the same `group`; "" and -1: it is none.
 */
export interface ActorLabel {
  name: string;
  cls: string;
  state: ActorState;
  pid: number;
  crashed: boolean;
  group: string;
  rank: number;
}

/** What was found. */
export interface CancelReply {
  status: 'ok';
  outcome: Outcome;
}

/** `html` has no scripts and everything foreign in it is escaped; `text` is for screen readers and copying. */
export interface CardReply {
  status: 'ok';
  html: string;
  text: string;
  data: Record<string, unknown>;
}

/** A run of a cell: as the notebook shows it (``"In [3]"``) and the notebook's id of the cell (``""`` if none). */
export interface CellLabel {
  label: string;
  id: string;
}

/**
 * Collectives of a rank, one or several soon after each other: its worker, when the first began and when the
 * last ended, None while it has not; the seconds in those that ended and how many these are; what the longest
 * is.
 */
export interface Collective {
  worker: number;
  began: number;
  ended: number;
  inside: number;
  calls: number;
  what: string;
}

/** Tasks by state; retrying ones are counted as queued. Puts are not tasks. */
export interface Counts {
  waiting: number;
  queued: number;
  running: number;
  finished: number;
  failed: number;
  cancelled: number;
}

/**
 * An experiment of Tune: its folder, by which it is known, and its name; what it is about (`metric` is "" if
 * nothing was named); seconds of the session at which it began and ended; why it is over; how its trials are;
 * the best one (-1: none has a value yet) and its value.
 */
export interface ExperimentLabel {
  path: string;
  name: string;
  metric: string;
  mode: Mode;
  began: number;
  ended: number;
  is_failed: boolean;
  why: string;
  counts: TrialCounts;
  best: number;
  best_value: number;
}

/**
 * Kernel -> panel: the experiments of this kernel, in the order in which they began.
 *
 * Sent after `Open` if there are any, and when one of them has changed, at most four times a second. Each
 * message replaces the one before.
 */
export interface Experiments {
  type: 'experiments';
  v: number;
  experiments: ExperimentLabel[];
}

/** `active` tells whether a session runs, `session` which one (``""`` if none). */
export interface HelloReply {
  status: 'ok';
  version: string;
  active: boolean;
  session: string;
  protocol: number;
}

/**
 * Kernel -> panel: the runs of learning of this kernel, in the order in which they began.
 *
 * Sent after `Open` if there are any, and when one of them has changed, at most four times a second. Each
 * message replaces the one before.
 */
export interface Learning {
  type: 'learning';
  v: number;
  runs: LearningLabel[];
}

/**
 * A run of learning: its number, what learns what, and with which settings; its state and the reason for it;
 * seconds of the session at which it began and ended; the metric that has a goal ("" if none has) and the value
 * from which on it is reached; how many results there were.
 */
export interface LearningLabel {
  run: number;
  title: string;
  settings: string;
  state: RunState;
  why: string;
  began: number;
  ended: number;
  goal: string;
  goal_value: number;
  results: number;
}

/**
 * Kernel -> panel, while `WatchLearning` asks for it: points of one run. `n` is 0 for a message that begins
 * anew, with whichever run, and one more than in the message before for all others.
 *
 * The points stand in place of those from the number `first` on; what a metric does not have before is NaN.
 * `values` is the number of points times that of the metrics and one more.
 */
export interface LearningPoints {
  type: 'learning_points';
  v: number;
  n: number;
  run: number;
  metrics: string[];
  first: number;
  points: number;
  values: number;
}

/** One line: seconds of the session, the row that printed it (-1: none that is known), stream, process, text. */
export interface LogLine {
  at: number;
  row: number;
  stream: Stream;
  pid: number;
  text: string;
}

/**
 * `first` is the number of the first line here: larger than asked for when older ones have been forgotten. There
 * are more if `lines` in the header is larger than the number of the last.
 */
export interface LogsReply {
  status: 'ok';
  first: number;
  lines: LogLine[];
}

/**
 * An attempt at a task that was lost with its machine: the row, the worker there, when it was sent, began there
 * (None: unknown), and was given up.
 */
export interface Loss {
  row: number;
  worker: number;
  sent: number;
  began: number;
  lost: number;
}

/** The largest `objects`, of `n_objects`; `used` of `capacity` bytes of memory are in use, and `disk` on disk. */
export interface MemoryReply {
  status: 'ok';
  objects: ObjectFacts[];
  n_objects: number;
  used: number;
  capacity: number;
  peak: number;
  disk: number;
  n_on_disk: number;
}

/**
 * A machine: its name, the CPUs and GPUs that tasks may use together, bytes of memory, room for values.
 *
 * For machines other than this one: its number `id` in the cluster; its `state` and the `reason` for it; the
 * seconds of the session at which it was seen first (`since`) and last (`ended`). For an engine, how many tasks
 * may be under way there (`window`), where people look at it, its `address`, and the state of the line to it,
 * since when.
 */
export interface NodeLabel {
  name: string;
  cpus: number;
  gpus: number;
  memory: number;
  store: number;
  id: string;
  state: NodeState;
  reason: string;
  since: number;
  ended: number;
  window: number;
  dashboard: string;
  address: string;
  line: LineState;
  line_since: number;
}

/**
 * One value of the store: its row (-1 if it has none), bytes, place, state, who made it, the processes and the
 * notebook's variables that hold it, in words, and how many tasks and values use it.
 */
export interface ObjectFacts {
  row: number;
  size: number;
  place: Place;
  state: ObjectState;
  made_by: string;
  holders: string[];
  variables: string[];
  users: number;
}

/** Done. */
export interface Ok {
  status: 'ok';
}

/** A parameter: its path in the configuration, and its values in words; no words if all of them are numbers. */
export interface Parameter {
  name: string;
  words: string[];
}

/** It could not be done: the error's type, and a sentence for people. */
export interface Refusal {
  status: 'error';
  ename: string;
  evalue: string;
}

/** Amounts by kind (CPU, GPU, memory, custom ones). */
export interface Resources {
  total: Record<string, number>;
  available: Record<string, number>;
}

/** `bound`: the variables of the notebook that hold the new futures, in words. */
export interface RetryReply {
  status: 'ok';
  bound: string[];
}

/**
 * What a machine was doing at one time.
 *
 * `load`: share of its processors' time that was used, by anybody, since the sample before; `cpus`, `gpus`: what
 * tasks had taken; `memory`, `store`, `disk`: bytes in use by anybody, by values, and by values that were moved
 * to disk; `queued`: tasks that waited for room there.
 */
export interface Sample {
  node: number;
  at: number;
  load: number;
  cpus: number;
  gpus: number;
  memory: number;
  store: number;
  disk: number;
  queued: number;
}

/** The file as it was asked for, and its bytes. */
export interface SaveReply {
  status: 'ok';
  path: string;
  size: number;
}

/** The Python stack of the worker's thread, innermost call last. */
export interface StackReply {
  status: 'ok';
  text: string;
}

/** The node's shared memory, in bytes, and the number of objects in it. */
export interface Store {
  used: number;
  capacity: number;
  objects: number;
}

/**
 * The bytes of a row's value (-1: of one without a row) on their way between this machine and another one:
 * whether they come here, how many, since when; when that was over, None while it is not, and whether they
 * arrived.
 */
export interface Transfer {
  row: number;
  node: number;
  comes: boolean;
  size: number;
  began: number;
  ended: number;
  complete: boolean;
}

/** Trials by state. */
export interface TrialCounts {
  pending: number;
  running: number;
  paused: number;
  ended: number;
  failed: number;
}

/** The row, -1 if it has none (yet, or not in this session). */
export interface TrialTaskReply {
  status: 'ok';
  row: number;
}

/** Why a trial is in its state, and what it has failed with; of trials that have one of them. */
export interface TrialText {
  trial: number;
  why: string;
  error: string;
}

/**
 * Kernel -> panel: trials of the experiment that `WatchTrials` named. `n` is 0 for a message that begins anew,
 * and one more than in the message before for all others.
 *
 * Each trial that has changed comes whole, with its curve, so that a message is applied by replacing what was
 * there. Curves are of `metric`, thinned to `N_POINTS_MAX` points evenly over the results and fewer where there
 * are many trials. `behind` trials wait for their turn. `values` and `settings` are the numbers of metrics and
 * parameters times that of trials.
 */
export interface Trials {
  type: 'trials';
  v: number;
  n: number;
  path: string;
  metric: string;
  metrics: string[];
  parameters: Parameter[];
  texts: TrialText[];
  told: string[];
  behind: number;
  changed: number;
  values: number;
  settings: number;
  points: number;
}

/**
 * A worker process and what it does (blocked: in get or wait; actor: it serves one); seconds of the session at
 * which it began and ended, None while it has not.
 *
 * `node`: its machine, 0 for this one. On another machine the state is "remote" and `pid` is one of that
 * machine, 0 for tasks that have been sent there and have not begun, as far as is known.
 */
export interface WorkerLabel {
  pid: number;
  state: WorkerState;
  since: number;
  ended: number;
  node: number;
}

/**
 * Snapshot: Kernel -> panel: forget what you have, rows are numbered from 0 again. `n` is 0.
 *
 * Sent after `Open` and `Resync`, and when a new session has begun. What does not fit follows in deltas.
 *
 * Delta: Kernel -> panel: what is new since the message before, whose number was one less.
 *
 * New rows come first in effect: updates and edges may name them. A task row is born waiting, an object row
 * finished.
 */
export interface GraphHeader {
  type: 'snapshot' | 'delta';
  v: number;
  n: number;
  session: string;
  now: number;
  tasks: number;
  aggregated: number;
  dropped: number;
  behind: number;
  functions: [number, string][];
  cells: [number, CellLabel][];
  actors: [number, ActorLabel][];
  workers: [number, WorkerLabel][];
  nodes: [number, NodeLabel][];
  samples: Sample[];
  transfers: [number, Transfer][];
  losses: Loss[];
  collectives: [number, Collective][];
  lines: number;
  errors: [number, string][];
  counts: Counts;
  resources: Resources;
  store: Store;
  new: number;
  updates: number;
  edges: number;
  remote: number;
  calls: number;
}

/** The binary buffers of one graph message. */
export interface GraphArrays {
  /**
   * Columns of the new rows, column after column: function, cell, actor + 1 (0 none), parent row + 1 (0 none),
   * kind.
   */
  newU32: Uint32Array;
  /** When each new row was submitted; NaN unknown. */
  newSubmitted: Float64Array;
  /** Rows that changed, each at most once in a message. */
  updateRow: Uint32Array;
  /** State. */
  updateState: Uint8Array;
  /** Worker, 255 none; from 256 on one of another machine. */
  updateWorker: Uint16Array;
  /** Start of the latest attempt; NaN none; on another machine, until its start is known: when it was sent. */
  updateStarted: Float64Array;
  /** End; NaN none; on another machine: when its result was here. */
  updateFinished: Float64Array;
  /** Size of the result in bytes; NaN unknown. */
  updateSize: Float64Array;
  /** Pairs (source row, target row): the target depends on the source. */
  edges: Uint32Array;
  /** Those of the rows that changed whose latest attempt ran, or is to run, on another machine. */
  remoteRow: Uint32Array;
  /** When each was sent, then when each ended there; NaN unknown. */
  remoteTimes: Float64Array;
  /**
   * Pairs (row, time): of rows among the updates whose code or arguments took long to load, when the user's code
   * began; of all others it is when they started.
   */
  calls: Float64Array;
}

/** The binary buffers of one message of trials. */
export interface TrialArrays {
  /** Trials that are new or have changed, each at most once in a message. */
  trial: Uint32Array;
  /** State. */
  state: Uint8Array;
  /** The latest result's training_iteration; 0 none. */
  iteration: Uint32Array;
  /** Columns: when each was suggested, first began, and ended; NaN it has not. */
  times: Float64Array;
  /** The latest result, metric after metric; NaN none. */
  metrics: Float64Array;
  /** Numbers, or indices of words, parameter after parameter; NaN none. */
  parameters: Float64Array;
  /** How many points each trial's whole curve has. */
  lengths: Uint32Array;
  /** When each point of the curves was reported. */
  at: Float32Array;
  /** Its training_iteration. */
  x: Float32Array;
  /** The metric. */
  y: Float32Array;
}

/** The binary buffers of one message of points of a run of learning. */
export interface LearningArrays {
  /** Columns of the points: when each was added, then metric after metric; NaN none. */
  values: Float64Array;
}

export interface GraphMessage {
  header: GraphHeader;
  arrays: GraphArrays;
}

/** What the panel asks. */
export type Request =
  /**
   * Is cellmesh there? Answered by `HelloReply` at once. `language` is the front end's, "" where it is English or
   * unknown.
   */
  | { op: 'hello'; language: string }
  /** Send the graph to this comm from now on. Opening twice restarts with a snapshot. */
  | { op: 'open'; comm_id: string }
  /** Stop sending. Unknown comms are no error: both sides may close. */
  | { op: 'close'; comm_id: string }
  /** A delta is missing: start again with a snapshot. */
  | { op: 'resync'; comm_id: string }
  /** Everything about one row, with a preview of its value. Answered by `CardReply`. */
  | { op: 'card'; row: number }
  /** Cancel a task; `force` kills its worker. */
  | { op: 'cancel'; row: number; force: boolean }
  /** Submit a task that has failed or was cancelled again. Answered by `RetryReply`. */
  | { op: 'retry'; row: number }
  /** Bind the row's value to a variable of the notebook, by the name. */
  | { op: 'fetch'; row: number; name: string }
  /** Where is that running task now? Answered by `StackReply`. */
  | { op: 'stack'; row: number }
  /**
   * What have tasks printed, from the line of this number on? Answered by `LogsReply`.
   *
   * Like `Memory`, asked at most once a second, while a view that shows it is open and the header's numbers have
   * changed.
   */
  | { op: 'logs'; after: number }
  /** What holds the store's memory, and who holds that? Answered by `MemoryReply`. */
  | { op: 'memory' }
  /**
   * Write the session as it is known into a file, relative to the kernel's working folder. Answered by
   * `SaveReply`.
   *
   * The name's ending says what: ``.cellmesh`` (a recording that the panel opens) or ``.html`` (one that a browser
   * does).
   */
  | { op: 'save'; path: string }
  /**
   * Send the trials of this experiment to this comm from now on, beginning anew, with curves of this metric ("":
   * the experiment's); no trials any more if `path` is "". Asked when the view opens, and when a message is
   * missing.
   */
  | { op: 'watch_trials'; comm_id: string; path: string; metric: string }
  /**
   * Send the points of the runs of learning to this comm from now on, beginning anew; or no more. Asked when the
   * view opens and closes, and when a message is missing.
   */
  | { op: 'watch_learning'; comm_id: string; wanted: boolean }
  /** Stop, pause or resume a trial of an experiment, or all of them (-1). */
  | { op: 'steer'; path: string; what: 'pause' | 'resume' | 'stop'; trial: number }
  /** Which row is the task of a trial's latest attempt? Answered by `TrialTaskReply`. */
  | { op: 'trial_task'; path: string; trial: number };
