import { expect, test } from 'vitest';
import schema from '../../protocol/schema.json';
import { message } from '../helpers';

test('messages made by hand have every field', () => {
  expect(Object.keys(message('snapshot').header).sort()).toEqual(Object.keys(schema.$defs.Snapshot.properties).sort());
});
