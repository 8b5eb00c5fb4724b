// Synthetic sessions: a small simulator of workers that run tasks and report in graph messages as the kernel does. The
// dev page plays them, tests use them as fixtures. It is seeded and reads no clock.

import {
  type ActorLabel,
  type CellLabel,
  type Counts,
  type GraphMessage,
  Kind,
  NO_WORKER,
  type Sample,
  State,
  VERSION,
  type WorkerLabel
} from '../src/protocol/messages';

export interface Plan {
  fn: string;
  cell: number;
  kind?: Kind;
  actor?: number;
  /** Index of the plan that submits it when it starts; otherwise it is submitted at `at`. */
  parent?: number;
  at?: number;
  needs?: number[];
  seconds?: number;
  /** Of those, what its arguments take. */
  loading?: number;
  outcome?: 'finished' | 'failed' | 'cancelled';
  bytes?: number;
}

export interface Scenario {
  nWorkers: number;
  cells: [number, CellLabel][];
  actors: [number, ActorLabel][];
  plans: Plan[];
}

/** Mulberry32: small, seeded, good enough for pictures. */
export function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export class Simulation {
  now = 0;
  private n = 0;
  private readonly functions: string[] = [];
  private readonly rowOf: Int32Array;
  private readonly state: Uint8Array;
  private readonly worker: Uint16Array;
  private readonly submitted: Float64Array;
  private readonly started: Float64Array;
  private readonly finished: Float64Array;
  private readonly missing: Int32Array;
  private readonly dependents: number[][];
  private readonly children: number[][];
  private readonly queue: number[] = [];
  private queueHead = 0;
  private readonly lanes = new Map<number, { queue: number[]; busy: boolean }>();
  private readonly running: { plan: number; end: number; worker: number }[] = [];
  private readonly free: number[] = [];
  private readonly toSubmit: { plan: number; at: number }[] = [];
  private newPlans: number[] = [];
  private newEdges: number[] = [];
  private dirty = new Set<number>();
  private isFirst = true;
  private readonly counts: Counts = { waiting: 0, queued: 0, running: 0, finished: 0, failed: 0, cancelled: 0 };
  private bytes = 0;
  private sampledAt = Number.NEGATIVE_INFINITY;
  private sentActors = '';

  constructor(private readonly scenario: Scenario) {
    const { plans, nWorkers } = scenario;
    const n = plans.length;
    this.rowOf = new Int32Array(n).fill(-1);
    this.state = new Uint8Array(n);
    this.worker = new Uint16Array(n).fill(NO_WORKER);
    this.submitted = new Float64Array(n).fill(NaN);
    this.started = new Float64Array(n).fill(NaN);
    this.finished = new Float64Array(n).fill(NaN);
    this.missing = new Int32Array(n);
    this.dependents = plans.map(() => []);
    this.children = plans.map(() => []);
    plans.forEach((plan, i) => {
      this.missing[i] = plan.needs?.length ?? 0;
      plan.needs?.forEach(source => this.dependents[source]!.push(i));
      if (plan.parent === undefined) {
        this.toSubmit.push({ plan: i, at: plan.at ?? 0 });
      } else {
        this.children[plan.parent]!.push(i);
      }
    });
    this.toSubmit.sort((a, b) => a.at - b.at || a.plan - b.plan).reverse();
    this.free = Array.from({ length: nWorkers }, (_, i) => nWorkers - i);
  }

  get isOver(): boolean {
    return !this.toSubmit.length && !this.running.length && this.queueHead === this.queue.length;
  }

  /** Advance the time; returns the message that the kernel would send. */
  step(now: number): GraphMessage {
    while (this.now < now) {
      this.running.sort((a, b) => b.end - a.end);
      const next = Math.min(
        now,
        this.running[this.running.length - 1]?.end ?? now,
        this.toSubmit[this.toSubmit.length - 1]?.at ?? now
      );
      this.now = Math.max(this.now, next);
      while (this.toSubmit.length && this.toSubmit[this.toSubmit.length - 1]!.at <= this.now) {
        this.submit(this.toSubmit.pop()!.plan);
      }
      while (this.running.length && this.running[this.running.length - 1]!.end <= this.now) {
        this.end(this.running.pop()!);
      }
      this.dispatch();
      if (next >= now) {
        break;
      }
    }
    return this.message();
  }

  private submit(plan: number): void {
    const { kind = Kind.task, needs = [] } = this.scenario.plans[plan]!;
    this.rowOf[plan] = this.n++;
    this.submitted[plan] = this.now;
    this.newPlans.push(plan);
    for (const source of needs) {
      this.newEdges.push(source, plan);
      if (this.state[source]! >= State.finished) {
        this.missing[plan]!--;
      }
    }
    if (kind === Kind.object) {
      this.finish(plan, State.finished);
      return;
    }
    this.counts.waiting++;
    if (this.missing[plan] === 0) {
      this.ready(plan);
    }
  }

  private ready(plan: number): void {
    this.change(plan, State.queued);
    const { actor } = this.scenario.plans[plan]!;
    if (actor === undefined) {
      this.queue.push(plan);
    } else {
      const lane = this.lanes.get(actor) ?? { queue: [], busy: false };
      this.lanes.set(actor, lane);
      lane.queue.push(plan);
    }
  }

  private dispatch(): void {
    for (const [actor, lane] of this.lanes) {
      if (!lane.busy && lane.queue.length) {
        lane.queue.sort((a, b) => a - b);
        lane.busy = true;
        this.start(lane.queue.shift()!, 100 + actor);
      }
    }
    while (this.free.length && this.queueHead < this.queue.length) {
      this.start(this.queue[this.queueHead++]!, this.free.pop()!);
    }
  }

  private start(plan: number, worker: number): void {
    this.change(plan, State.running);
    this.worker[plan] = worker;
    this.started[plan] = this.now;
    this.running.push({ plan, worker, end: this.now + (this.scenario.plans[plan]!.seconds ?? 0.1) });
    for (const child of this.children[plan]!) {
      this.submit(child);
    }
  }

  private end({ plan, worker }: { plan: number; worker: number }): void {
    const { outcome = 'finished', actor } = this.scenario.plans[plan]!;
    if (actor === undefined) {
      this.free.push(worker);
    } else {
      this.lanes.get(actor)!.busy = false;
    }
    this.finish(plan, State[outcome]);
  }

  private finish(plan: number, state: State): void {
    const { bytes = 0, kind } = this.scenario.plans[plan]!;
    this.bytes += bytes;
    this.finished[plan] = this.now;
    if (kind === Kind.object) {
      this.state[plan] = state;
      this.dirty.add(plan);
    } else {
      this.change(plan, state);
    }
    for (const target of this.dependents[plan]!) {
      if (this.rowOf[target]! >= 0 && --this.missing[target]! === 0) {
        this.ready(target);
      }
    }
  }

  private change(plan: number, to: State): void {
    const names: (keyof Counts)[] = ['waiting', 'queued', 'running', 'finished', 'failed', 'cancelled'];
    this.counts[names[this.state[plan]!]!]--;
    this.counts[names[to]!]++;
    this.state[plan] = to;
    this.dirty.add(plan);
  }

  /** Once a second, like a kernel. */
  private sample(cpus: number): Sample[] {
    if (this.now < this.sampledAt + 1) {
      return [];
    }
    this.sampledAt = this.now;
    const load = Math.min(1, cpus / Math.max(1, this.scenario.nWorkers));
    return [
      { node: 0, at: this.now, load, cpus, gpus: 0, memory: 2e9 + this.bytes, store: this.bytes, disk: 0, queued: 0 }
    ];
  }

  private message(): GraphMessage {
    const { plans, cells, actors, nWorkers } = this.scenario;
    const functions: [number, string][] = [];
    const fn = (name: string) => {
      let index = this.functions.indexOf(name);
      if (index < 0) {
        index = this.functions.push(name) - 1;
        functions.push([index, name]);
      }
      return index;
    };
    const nNew = this.newPlans.length;
    const newU32 = new Uint32Array(5 * nNew);
    const newSubmitted = new Float64Array(nNew);
    this.newPlans.forEach((i, k) => {
      const plan = plans[i]!;
      newU32[k] = fn(plan.fn);
      newU32[nNew + k] = plan.cell;
      newU32[2 * nNew + k] = (plan.actor ?? -1) + 1;
      newU32[3 * nNew + k] = plan.parent === undefined ? 0 : this.rowOf[plan.parent]! + 1;
      newU32[4 * nNew + k] = plan.kind ?? Kind.task;
      newSubmitted[k] = this.submitted[i]!;
    });
    const dirty = [...this.dirty];
    const isEnded = (i: number) => this.state[i]! >= State.finished;
    const used = nWorkers - this.free.length;
    const liveActors = actors.filter(([index]) => this.lanes.has(index));
    const actorKey = String(liveActors.length);
    const sendActors = actorKey !== this.sentActors;
    this.sentActors = actorKey;
    const begun = dirty.filter(i => this.started[i]! + (plans[i]!.loading ?? NaN) <= this.now);
    const message: GraphMessage = {
      header: {
        type: this.isFirst ? 'snapshot' : 'delta',
        v: VERSION,
        n: 0,
        session: 'synthetic',
        now: this.now,
        tasks: this.n,
        aggregated: 0,
        dropped: 0,
        behind: 0,
        functions,
        cells: this.isFirst ? cells : [],
        actors: sendActors ? liveActors : [],
        workers: this.isFirst
          ? Array.from({ length: nWorkers }, (_, i): [number, WorkerLabel] => [
              i + 1,
              { pid: 4200 + i, state: 'idle', since: 0, ended: Number.POSITIVE_INFINITY, node: 0 }
            ])
          : [],
        nodes: this.isFirst
          ? [
              [
                0,
                {
                  name: 'this machine',
                  cpus: nWorkers,
                  gpus: 0,
                  memory: 8e9,
                  store: 2e9,
                  id: '',
                  state: 'alive',
                  reason: '',
                  since: 0,
                  ended: Number.POSITIVE_INFINITY,
                  window: 0,
                  dashboard: '',
                  address: '',
                  line: '' as const,
                  line_since: 0
                }
              ]
            ]
          : [],
        transfers: [],
        collectives: [],
        losses: [],
        samples: this.sample(used),
        lines: 0,
        errors: [],
        counts: { ...this.counts },
        resources: { total: { CPU: nWorkers }, available: { CPU: nWorkers - used } },
        store: { used: this.bytes, capacity: 2e9, objects: this.n },
        new: nNew,
        updates: dirty.length,
        edges: this.newEdges.length / 2,
        remote: 0,
        calls: begun.length
      },
      arrays: {
        newU32,
        newSubmitted,
        updateRow: Uint32Array.from(dirty, i => this.rowOf[i]!),
        updateState: Uint8Array.from(dirty, i => this.state[i]!),
        updateWorker: Uint16Array.from(dirty, i => this.worker[i]!),
        updateStarted: Float64Array.from(dirty, i => this.started[i]!),
        updateFinished: Float64Array.from(dirty, i => this.finished[i]!),
        updateSize: Float64Array.from(dirty, i => (isEnded(i) ? (plans[i]!.bytes ?? 0) : NaN)),
        edges: Uint32Array.from(this.newEdges, i => this.rowOf[i]!),
        remoteRow: new Uint32Array(0),
        remoteTimes: new Float64Array(0),
        calls: Float64Array.from(begun.flatMap(i => [this.rowOf[i]!, this.started[i]! + plans[i]!.loading!]))
      }
    };
    this.newPlans = [];
    this.newEdges = [];
    this.dirty = new Set();
    this.isFirst = false;
    return message;
  }
}

const cell = (index: number): [number, CellLabel] => [index, { label: `In [${index}]`, id: `cell-${index}` }];

/** A chain and a tree of additions, an array, a failure: what the first notebook does. */
export function quickstart(): Scenario {
  const plans: Plan[] = [];
  const add = (plan: Plan) => plans.push(plan) - 1;
  const rows = add({ fn: 'put', cell: 3, kind: Kind.object, bytes: 8e6 });
  const parts = [0, 1, 2, 3].map(i =>
    add({ fn: 'simulate', cell: 3, needs: [rows], seconds: 0.5 + 0.23 * i, bytes: 4e6 })
  );
  const left = add({ fn: 'combine', cell: 3, needs: parts.slice(0, 2), seconds: 0.4, bytes: 4e6 });
  const right = add({ fn: 'combine', cell: 3, needs: parts.slice(2), seconds: 0.9, bytes: 4e6 });
  const whole = add({ fn: 'combine', cell: 3, needs: [left, right], seconds: 0.7, bytes: 4e6 });
  add({ fn: 'plot_histogram', cell: 4, at: 0.3, needs: [whole], seconds: 0.4, bytes: 90_000 });
  const load = add({ fn: 'load_csv', cell: 5, at: 0.4, seconds: 0.6, bytes: 2e6 });
  add({ fn: 'validate', cell: 5, at: 0.4, needs: [load], seconds: 0.3, outcome: 'failed' });
  add({ fn: 'summarize', cell: 5, at: 0.4, needs: [load], seconds: 2.6, bytes: 600 });
  return { nWorkers: 4, cells: [3, 4, 5].map(cell), actors: [], plans };
}

/** Simulators, a parameter server and gradients, several rounds, with a few failures. */
export function parameterServer(nRounds = 12, nSimulators = 4): Scenario {
  const next = random(7);
  const plans: Plan[] = [];
  const add = (plan: Plan) => plans.push(plan) - 1;
  const server = add({ fn: 'ParameterServer', cell: 6, kind: Kind.actor_creation, actor: 0, seconds: 0.1 });
  const simulators = Array.from({ length: nSimulators }, (_, i) =>
    add({ fn: 'Simulator', cell: 7, at: 0.05, kind: Kind.actor_creation, actor: i + 1, seconds: 0.1 + 0.05 * i })
  );
  let weights = add({
    fn: 'ParameterServer.weights',
    cell: 8,
    at: 0.1,
    kind: Kind.actor_call,
    actor: 0,
    needs: [server],
    seconds: 0.02,
    bytes: 2e6
  });
  for (let round = 0; round < nRounds; round++) {
    const gradients = simulators.map((simulator, i) => {
      const rollout = add({
        fn: 'Simulator.rollout',
        cell: 8,
        at: 0.1,
        kind: Kind.actor_call,
        actor: i + 1,
        needs: [simulator, weights],
        seconds: 0.15 + 0.25 * next(),
        bytes: 3e6
      });
      return add({
        fn: 'gradient',
        cell: 8,
        at: 0.1,
        needs: [rollout, weights],
        seconds: 0.08 + 0.1 * next(),
        bytes: 2e6
      });
    });
    weights = add({
      fn: 'ParameterServer.apply',
      cell: 8,
      at: 0.1,
      kind: Kind.actor_call,
      actor: 0,
      needs: gradients,
      seconds: 0.05,
      bytes: 2e6
    });
  }
  const actors: [number, ActorLabel][] = [
    [0, { name: 'weights', cls: 'ParameterServer', state: 'alive', pid: 4100, crashed: false, group: '', rank: -1 }]
  ];
  simulators.forEach((_, i) =>
    actors.push([
      i + 1,
      { name: '', cls: 'Simulator', state: 'alive', pid: 4101 + i, crashed: false, group: '', rank: -1 }
    ])
  );
  return { nWorkers: 4, cells: [6, 7, 8].map(cell), actors, plans };
}

/** A map over many inputs, a second map, and a reduction by eights. `scale` tasks in the first map. */
export function mapReduce(scale: number, seconds: number, nWorkers: number): Scenario {
  const next = random(3);
  const plans: Plan[] = [];
  const add = (plan: Plan) => plans.push(plan) - 1;
  let level = Array.from({ length: scale }, () =>
    add({ fn: 'tokenize', cell: 11, seconds: seconds * (0.4 + 1.2 * next()), bytes: 20_000 })
  );
  level = level.map(source =>
    add({
      fn: 'count_words',
      cell: 12,
      at: 0.2,
      needs: [source],
      seconds: seconds * (0.3 + next()),
      outcome: next() < 0.004 ? 'failed' : 'finished',
      bytes: 4000
    })
  );
  while (level.length > 1) {
    const merged: number[] = [];
    for (let i = 0; i < level.length; i += 8) {
      merged.push(
        add({
          fn: 'merge',
          cell: 13,
          at: 0.3,
          needs: level.slice(i, i + 8),
          seconds: seconds * (0.5 + next()),
          bytes: 8000
        })
      );
    }
    level = merged;
  }
  return { nWorkers, cells: [11, 12, 13].map(cell), actors: [], plans };
}

/** A search that calls itself: nested tasks. */
export function recursion(depth = 6): Scenario {
  const plans: Plan[] = [];
  const grow = (level: number, parent?: number): void => {
    const at =
      plans.push({ fn: 'search', cell: 9, seconds: 0.3 + 0.2 * level, ...(parent === undefined ? {} : { parent }) }) -
      1;
    if (level > 0) {
      grow(level - 1, at);
      grow(level - 2, at);
    }
  };
  grow(depth);
  return { nWorkers: 6, cells: [cell(9)], actors: [], plans };
}
