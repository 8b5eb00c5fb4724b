import { beforeEach, expect, test } from 'vitest';
import { learning, pointsOf } from '../../../dev/runs';
import type { Told } from '../../../dev/search';
import { LearningLink } from '../../connection/learning';
import { ProtocolError } from '../../protocol/errors';
import type { Request } from '../../protocol/messages';

let asked: Request[];
let link: LearningLink;

beforeEach(() => {
  asked = [];
  link = new LearningLink('c', async request => {
    asked.push(request);
    return { status: 'ok' };
  });
});

const take = ({ data, buffers }: Told, change: Record<string, unknown> = {}) =>
  link.receive({ ...data, ...change }, buffers);
const lengths = () => link.runs.labels.map(({ run }) => link.runs.of(run).at.length);

test('points are asked for once while somebody looks, and come in order', () => {
  const [list, ...points] = learning(2, 5);
  expect(take(list!)).toBe(true);
  expect(link.runs.labels[1]).toMatchObject({ title: 'DQN on CartPole-v1', ended: Number.POSITIVE_INFINITY });
  link.renew();
  link.watch(true);
  link.watch(true);
  expect(asked).toEqual([{ op: 'watch_learning', comm_id: 'c', wanted: true }]);
  points.forEach(each => take(each));
  take(pointsOf(2, 1, 7, 4));
  expect(lengths()).toEqual([5, 7]);
  expect(link.receive({ type: 'snapshot' }, [])).toBe(false);
  link.renew();
  link.watch(false);
  expect(asked.slice(1).map(each => each.op === 'watch_learning' && each.wanted)).toEqual([true, false]);
});

test('a gap is asked for once, from the beginning', () => {
  const [list, first] = learning(1, 5);
  take(list!);
  link.watch(true);
  take(first!);
  take(pointsOf(2, 0, 8, 7));
  take(pointsOf(3, 0, 9, 8));
  expect([asked.length, ...lengths()]).toEqual([2, 5]);
  take(pointsOf(0, 0, 9));
  take(pointsOf(1, 0, 10, 8));
  expect([asked.length, ...lengths()]).toEqual([2, 10]);
});

test('what cannot be read is refused', () => {
  expect(() => take(learning(1, 1)[0]!, { runs: [{ run: -1 }] })).toThrow(ProtocolError);
  expect(() => take(pointsOf(0, 0, 3), { values: 5 })).toThrow(ProtocolError);
});

test('another kernel knows nothing', () => {
  learning(1, 5).forEach(each => take(each));
  link.watch(true);
  link.clear();
  expect(link.runs.labels).toEqual([]);
  link.renew();
  expect(asked).toHaveLength(1);
});
