// dev/: the panel on synthetic sessions, for those who work on it; never in the product.

// The panel on a synthetic session, without JupyterLab: `npm run dev`, then http://127.0.0.1:8123/?scenario=quickstart
//
// Parameters: scenario (quickstart, server, map, large, search, none), dark=1, at=SECONDS (stop there), speed, trials=N
// (of a search with Tune, which the view Trials shows), reports=N (of each), runs=N (of learning), points=N (of each).

import { render } from 'preact';
import { Connection, type Transport } from '../src/connection/connection';
import { Body } from '../src/panels/body';
import { PanelState } from '../src/panels/shared/state';
import { installStyles } from '../src/panels/shared/styles';
import type { ReplyContent } from '../src/protocol/decode';
import { type GraphMessage, type Request, VERSION } from '../src/protocol/messages';
import { learning } from './runs';
import { search, type Told } from './search';
import { mapReduce, parameterServer, quickstart, recursion, type Scenario, Simulation } from './trace';

const options = new URLSearchParams(location.search);
const scenarios: Record<string, () => Scenario> = {
  quickstart,
  server: () => parameterServer(),
  map: () => mapReduce(128, 0.15, 8),
  large: () => mapReduce(46_000, 0.004, 64),
  search: () => recursion(),
  none: () => ({ nWorkers: 0, cells: [], actors: [], plans: [] })
};

const CARD = `<table><tr><th>type</th><td>numpy.ndarray</td></tr><tr><th>shape</th><td>(1000, 8)</td></tr>
<tr><th>dtype</th><td>float64</td></tr>
<tr><th>mean</th><td>0.0021</td></tr><tr><th>from, to</th><td>-4.41, 4.26</td></tr></table>
<pre>array([[ 0.12573022, -0.13210486,  0.64042265],
       [-0.53566937,  0.36159505,  1.30400005], ...])</pre>
<img src="https://example.invalid/never-loaded.png" alt="">
<script>parent.document.title = 'hostile'</script>`;

/** Stands in for the kernel. */
class SyntheticTransport implements Transport {
  readonly label = 'synthetic.ipynb';
  private receive: ((data: unknown, buffers: readonly ArrayBuffer[]) => void) | null = null;
  private n = 0;
  told: Told[] = [];
  toldOfLearning: Told[] = [];

  async request(request: Request): Promise<ReplyContent> {
    if (request.op === 'card') {
      return { status: 'ok', html: CARD, text: 'an array', data: {} };
    }
    if (request.op === 'watch_trials' && request.path) {
      this.tell(this.told.slice(1));
    }
    if (request.op === 'watch_learning' && request.wanted) {
      this.tell(this.toldOfLearning.slice(1));
    }
    return { status: 'ok', version: '0', active: true, session: 's', protocol: VERSION };
  }

  subscribe(_commId: string, receive: (data: unknown, buffers: readonly ArrayBuffer[]) => void): () => void {
    this.receive = receive;
    return () => {
      this.receive = null;
    };
  }

  /** Each message in a turn of its own, as from a socket. */
  tell(told: readonly Told[]): void {
    told.forEach(({ data, buffers }) => setTimeout(() => this.receive?.(data, buffers)));
  }

  reveal(cellId: string): void {
    console.info('reveal', cellId);
  }

  send({ header, arrays }: GraphMessage): void {
    const columns = Object.values(arrays) as Uint8Array<ArrayBuffer>[];
    const samples = header.samples.map(({ node, at, load, cpus, gpus, memory, store, disk, queued }) => [
      ...[node, at, load, cpus, gpus, memory, store, disk, queued]
    ]);
    this.receive?.(
      { ...header, samples, n: header.type === 'snapshot' ? (this.n = 0) : ++this.n },
      columns.map(column => column.slice().buffer)
    );
  }
}

async function main(): Promise<void> {
  const root = document.getElementById('root')!;
  document.body.dataset['jpThemeLight'] = options.get('dark') === '1' ? 'false' : 'true';
  installStyles(root);
  const state = new PanelState();
  render(<Body state={state} options={{ wheel: 'always' }} />, root);
  const transport = new SyntheticTransport();
  const connection = new Connection(transport);
  state.connect(connection);
  await connection.start();
  const nTrials = Number(options.get('trials') ?? 0);
  if (nTrials) {
    transport.told = search(nTrials, Number(options.get('reports') ?? 30));
    transport.tell(transport.told.slice(0, 1));
    state.view.value = 'trials';
  }
  const nRuns = Number(options.get('runs') ?? 0);
  if (nRuns) {
    transport.toldOfLearning = learning(nRuns, Number(options.get('points') ?? 80));
    transport.tell(transport.toldOfLearning.slice(0, 1));
    state.view.value = 'learning';
  }
  const simulation = new Simulation((scenarios[options.get('scenario') ?? 'quickstart'] ?? quickstart)());
  const stop = Number(options.get('at') ?? 1e9);
  const speed = Number(options.get('speed') ?? 1);
  const begin = performance.now();
  Object.assign(window, { panel: { state, connection, simulation } });
  const play = () => {
    const now = Math.min(stop, ((performance.now() - begin) / 1000) * speed);
    transport.send(simulation.step(now));
    if (now < stop && !simulation.isOver) {
      setTimeout(play, 33);
    } else {
      document.body.dataset['ready'] = 'true';
    }
  };
  play();
}

void main();
