import { expect, test } from 'vitest';
import { clock, duration, short, size, stopwatch } from '../../i18n/format';

const plain = (text: string) => text.replace(/\u00a0/g, ' ');

test.each([
  [0, '0 µs'],
  [1.23e-5, '12 µs'],
  [0.00099949, '999 µs'],
  [0.0009996, '1.0 ms'],
  [0.0123, '12 ms'],
  [0.9996, '1.0 s'],
  [12.4, '12 s'],
  [59.96, '0:59'],
  [3675, '1:01:15'],
  [Number.NaN, '']
])('%d seconds', (seconds, expected) => {
  expect(plain(duration(seconds))).toBe(expected);
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1234, '1.2 kB'],
  [150_000, '150 kB'],
  [999_950, '1 MB'],
  [2e9, '2 GB'],
  [Number.NaN, '']
])('%d bytes', (bytes, expected) => {
  expect(plain(size(bytes))).toBe(expected);
});

test.each([
  [0.25, '0.3'],
  [4, '4'],
  [312.4, '312'],
  [16_700, '16.7k'],
  [1_234_567, '1.23M']
])('%d in short', (value, expected) => {
  expect(short(value)).toBe(expected);
});

test('clocks', () => {
  expect([clock(0), clock(75), clock(3600)]).toEqual(['0:00', '1:15', '1:00:00']);
  expect(
    [stopwatch(0), stopwatch(0.012), stopwatch(0.84), stopwatch(9.94), stopwatch(9.96), stopwatch(75)].map(plain)
  ).toEqual(['0.0 s', '12 ms', '0.8 s', '9.9 s', '0:09', '1:15']);
});
