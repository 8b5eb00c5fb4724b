import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer } from '../../../dev/trace';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { cardPage, variableName } from '../../panels/card';
import { describeGroup, describeRow, summary } from '../../panels/shared/describe';
import { Kind } from '../../protocol/messages';
import { message, play } from '../helpers';

const plain = (lines: readonly string[]) => lines.map(line => line.replace(/\u00a0/g, ' '));

describe('a row in words', () => {
  const graph = new TaskGraph();
  play(graph, parameterServer(2, 2));

  test('says what it is, how it went, where, and with whom', () => {
    const row = [...Array(graph.n).keys()].find(r => graph.name(r) === 'gradient')!;
    const lines = plain(describeRow(graph, row, graph.now));
    expect(lines[0]).toBe('gradient');
    expect(lines[1]).toMatch(/^finished in \d+ ms$/);
    expect(lines[2]).toMatch(/^In \[8\] {2}· {2}.*worker 42\d\d$/);
    expect(lines[3]).toMatch(/^needs 2 {2}· {2}needed by 1/);
  });

  test('names a named actor', () => {
    const row = [...Array(graph.n).keys()].find(r => graph.kind[r] === Kind.actor_creation)!;
    expect(describeRow(graph, row, graph.now)[0]).toBe('ParameterServer “weights”');
  });
});

test('a group in words', () => {
  const graph = new TaskGraph();
  play(graph, mapReduce(300, 0.05, 8));
  const lines = plain(describeGroup(graph, 0));
  expect(lines[0]).toBe('tokenize');
  expect(lines[1]).toMatch(/^In \[11\] {2}· {2}300 tasks {2}· {2}\d+ ms on average$/);
  expect(lines[2]).toBe('300 finished');
});

test('the whole in one sentence', () => {
  const counts = { waiting: 2, queued: 3, running: 4, finished: 5, failed: 1, cancelled: 0 };
  expect(summary(counts, 15, 75)).toBe('5 of 15 tasks finished. 4 running. 5 to come. 1 failed. Elapsed 1:15.');
  expect(summary(counts, 0, 0)).toBe('No tasks yet.');
});

test('names that tasks give stay text', () => {
  const graph = new TaskGraph();
  const hostile = '<img src=x onerror=alert(1)>';
  apply(graph, message('snapshot', { rows: [{ fn: 1 }], header: { functions: [[1, hostile]] } }), 0);
  expect(describeRow(graph, 0, 0)[0]).toBe(hostile);
});

test.each([
  ['simulate', 'simulate_result'],
  ['Simulator.step', 'simulator_step_result'],
  ['<lambda>', 'lambda_result'],
  ['<>', 'value'],
  ['3d', '_3d_result']
])('a variable for what %s returned', (name, expected) => {
  expect(variableName(name)).toBe(expected);
});

describe('the page around a card', () => {
  test('lets nothing run and nothing load', () => {
    const page = cardPage('<b>x</b>', () => '', false);
    expect(page).toContain("default-src 'none'");
    expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<style>'));
  });

  test('takes no markup from the theme', () => {
    expect(cardPage('', () => '</style><script>', true)).not.toContain('<script>');
  });
});
