import { beforeEach, describe, expect, test, vi } from 'vitest';
import { Connection, type Transport } from '../../connection/connection';
import type { Buffer } from '../../protocol/check';
import type { ReplyContent } from '../../protocol/decode';
import { NoAnswer, Refusal } from '../../protocol/errors';
import { type Request, State, VERSION } from '../../protocol/messages';
import { message, onTheWire, type Parts } from '../helpers';

/** A transport whose kernel answers as each test says. */
class FakeTransport implements Transport {
  readonly label = 'test.ipynb';
  readonly requests: Request[] = [];
  answer: (request: Request) => Promise<ReplyContent> = async () => ({ status: 'ok', version: '1', protocol: VERSION });
  isSubscribed = false;
  private receive: (data: unknown, buffers: readonly Buffer[]) => void = () => undefined;

  request(request: Request): Promise<ReplyContent> {
    this.requests.push(request);
    return this.answer(request);
  }

  subscribe(_commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void {
    this.receive = receive;
    this.isSubscribed = true;
    return () => {
      this.isSubscribed = false;
    };
  }

  send(type: 'snapshot' | 'delta', n: number, parts: Parts = {}): void {
    this.receive(...onTheWire(message(type, parts), n));
  }

  sendBroken(): void {
    this.receive({ type: 'snapshot' }, []);
  }

  get ops(): string[] {
    return this.requests.map(request => request.op);
  }
}

let transport: FakeTransport;
let connection: Connection;

beforeEach(() => {
  transport = new FakeTransport();
  connection = new Connection(transport);
});

test('says hello, opens and follows', async () => {
  const changed = vi.fn();
  connection.onChange = changed;
  await connection.start();
  expect(transport.ops).toEqual(['hello', 'open']);
  expect(connection.status.value).toBe('connecting');
  transport.send('snapshot', 0, { rows: [{}] });
  transport.send('delta', 1, { updates: [{ row: 0, state: State.finished }] });
  expect(connection.status.value).toBe('live');
  expect(connection.graph.state[0]).toBe(State.finished);
  expect(changed).toHaveBeenCalledTimes(2);
});

describe('a gap in the numbers', () => {
  test('asks once for a snapshot and ignores deltas until it is there', async () => {
    await connection.start();
    transport.send('snapshot', 0, { rows: [{}] });
    transport.send('delta', 2, { rows: [{}] });
    transport.send('delta', 3, { rows: [{}] });
    expect(transport.ops).toEqual(['hello', 'open', 'resync']);
    expect(connection.graph.n).toBe(1);
    transport.send('snapshot', 0, { rows: [{}, {}, {}] });
    transport.send('delta', 1, { rows: [{}] });
    expect(connection.graph.n).toBe(4);
  });

  test('is not seen in deltas from before the first snapshot', async () => {
    await connection.start();
    transport.send('delta', 7);
    expect(transport.ops).toEqual(['hello', 'open']);
  });
});

test('what cannot be read is asked for again, but not for ever', async () => {
  await connection.start();
  transport.send('snapshot', 0);
  transport.sendBroken();
  transport.sendBroken();
  transport.sendBroken();
  expect(connection.status.value).toBe('live');
  transport.sendBroken();
  expect(transport.ops.filter(op => op === 'resync')).toHaveLength(3);
  expect(connection.status.value).toBe('failed');
  expect(connection.problem.value).not.toBe('');
});

test('a kernel that does not answer is one without cellmesh', async () => {
  transport.answer = () => Promise.reject(new NoAnswer('nothing'));
  await connection.start();
  expect(connection.status.value).toBe('absent');
  expect(transport.isSubscribed).toBe(false);
});

test('a kernel that answers late is heard, and asked once', async () => {
  vi.useFakeTimers();
  let answer: (reply: ReplyContent) => void = () => undefined;
  transport.answer = () => new Promise(resolve => (answer = resolve));
  const started = connection.start();
  vi.advanceTimersByTime(2500);
  expect(connection.status.value).toBe('absent');
  vi.useRealTimers();
  transport.answer = async () => ({ status: 'ok' });
  answer({ status: 'ok', protocol: VERSION });
  await started;
  expect(transport.ops).toEqual(['hello', 'open']);
  expect(connection.status.value).toBe('connecting');
  transport.send('snapshot', 0);
  expect(connection.status.value).toBe('live');
});

test('the graph of a session that has gone is not shown again', async () => {
  await connection.start();
  transport.send('snapshot', 0, { rows: [{}] });
  connection.lose();
  transport.answer = () => Promise.reject(new NoAnswer('nothing'));
  await connection.start();
  expect([connection.status.value, connection.graph.n]).toEqual(['absent', 0]);
});

test('another version is named, not misread', async () => {
  transport.answer = async () => ({ status: 'ok', version: '9.1', protocol: VERSION + 1 });
  await connection.start();
  expect(connection.status.value).toBe('failed');
  expect(connection.problem.value).toContain('9.1');
});

test('a refusal is shown in the kernel’s words', async () => {
  transport.answer = () => Promise.reject(new Refusal('Busy', 'Too many requests.'));
  await connection.start();
  expect(connection.problem.value).toBe('Too many requests.');
});

test('a lost kernel leaves the last picture; an announcement brings it back', async () => {
  await connection.start();
  transport.send('snapshot', 0, { rows: [{}] });
  connection.lose();
  expect([connection.status.value, connection.graph.n, transport.isSubscribed]).toEqual(['lost', 1, false]);
  await connection.start();
  transport.send('snapshot', 0, { rows: [] });
  expect([connection.status.value, connection.graph.n]).toEqual(['live', 0]);
});

test('of overlapping starts the last one counts', async () => {
  const answers: ((reply: ReplyContent) => void)[] = [];
  transport.answer = () => new Promise(resolve => answers.push(resolve));
  const first = connection.start();
  const second = connection.start();
  answers[0]!({ status: 'ok' });
  await first;
  expect(transport.ops).toEqual(['hello', 'hello']);
  answers[1]!({ status: 'ok' });
  await vi.waitFor(() => expect(transport.ops).toEqual(['hello', 'hello', 'open']));
  answers[2]!({ status: 'ok' });
  await second;
});

test('disposing closes, and may be done twice', async () => {
  await connection.start();
  connection.dispose();
  connection.dispose();
  expect(transport.ops).toEqual(['hello', 'open', 'close']);
  expect(transport.isSubscribed).toBe(false);
});
