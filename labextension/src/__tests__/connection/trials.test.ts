import { beforeEach, expect, test } from 'vitest';
import { search, type Told } from '../../../dev/search';
import { TrialsLink } from '../../connection/trials';
import type { Request } from '../../protocol/messages';

const PATH = '/home/me/tune/digits';
let asked: Request[];
let link: TrialsLink;

beforeEach(() => {
  asked = [];
  link = new TrialsLink('c', async request => {
    asked.push(request);
    return { status: 'ok', row: 4 };
  });
});

const take = ({ data, buffers }: Told, change: Record<string, unknown> = {}) =>
  link.receive({ ...data, ...change }, buffers);

test('an experiment is asked for once, and its trials come in order', () => {
  const [list, first, second] = search(700, 5);
  expect(take(list!)).toBe(true);
  expect(link.experiments[0]).toMatchObject({ name: 'digits', ended: Number.POSITIVE_INFINITY });
  link.watch(PATH, '');
  link.watch(PATH, '');
  expect(asked).toEqual([{ op: 'watch_trials', comm_id: 'c', path: PATH, metric: '' }]);
  take(first!);
  take(second!);
  expect(link.trials.n).toBe(700);
  expect(link.receive({ type: 'snapshot' }, [])).toBe(false);
  link.renew();
  expect(asked).toHaveLength(2);
  link.watch('', '');
  expect(link.trials.n).toBe(0);
  link.renew();
  expect(asked).toHaveLength(3);
});

test('a gap is asked for once, from the beginning', () => {
  const [, first] = search(5, 5);
  link.watch(PATH, '');
  take(first!);
  take(first!, { n: 2 });
  take(first!, { n: 3 });
  expect(asked).toHaveLength(2);
  take(first!);
  take(first!, { n: 1 });
  expect(asked).toHaveLength(2);
});

test('what belongs to another experiment or metric is left out', () => {
  const [, first] = search(5, 5);
  link.watch('/elsewhere', '');
  expect(take(first!)).toBe(true);
  expect(link.trials.n).toBe(0);
  link.watch(PATH, 'loss');
  take(first!);
  expect(link.trials.n).toBe(0);
});

test('requests about trials', async () => {
  await link.steer(PATH, 'stop', 3);
  expect(asked[0]).toEqual({ op: 'steer', path: PATH, what: 'stop', trial: 3 });
  expect(await link.rowOf(PATH, 3)).toBe(4);
});
