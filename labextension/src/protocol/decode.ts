// Turns what arrives (unchecked JSON and binary buffers) into typed messages. All code outside this folder may rely on
// the types. `validators.ts` checks what the schema says; this file checks the rest.

import { type Buffer, isObject, type Json, record } from './check';
import { ProtocolError, Refusal } from './errors';
import { type GraphMessage, VERSION } from './messages';
import { decodeArrays, decodeGraphHeader, decodeRefusal } from './validators';

/** A successful reply's fields; which ones depends on the request, so they are checked where they are used. */
export type ReplyContent = Json;

/**
 * A graph message from its JSON part and its buffers.
 *
 * Throws `ProtocolError` when anything is missing, of the wrong type, or a buffer's size is not what the header says.
 * Row numbers are checked by the model, which knows how many rows there are.
 */
export function decodeGraphMessage(data: unknown, buffers: readonly Buffer[]): GraphMessage {
  if (isObject(data) && data['v'] !== VERSION) {
    throw new ProtocolError(
      `the kernel speaks version ${String(data['v'])} of the panel protocol, this panel ${VERSION}`
    );
  }
  const header = decodeGraphHeader(data, 'message');
  return { header, arrays: decodeArrays(header, buffers) };
}

/** A reply's fields; throws `Refusal` when the kernel said no, `ProtocolError` when it is no reply. */
export function decodeReply(content: unknown): ReplyContent {
  const reply = record(content, 'reply');
  if (reply['status'] === 'ok') {
    return reply;
  }
  if (reply['status'] === 'error') {
    const { ename, evalue } = decodeRefusal(reply);
    throw new Refusal(ename, evalue);
  }
  throw new ProtocolError('a reply without a status');
}
