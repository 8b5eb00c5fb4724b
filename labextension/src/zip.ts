// The members of a zip archive that holds a recording.

import { unzipSync } from 'fflate';

import { ProtocolError } from './protocol';

/** Of one member, unpacked. */
const BYTES_MAX = 1 << 30;

/** The members by name, unpacked. Throws `ProtocolError` when it is no archive, or not one that can be read here. */
export function unzip(archive: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  try {
    return new Map(Object.entries(unzipSync(archive, { filter: isBearable })) as [string, Uint8Array<ArrayBuffer>][]);
  } catch (error) {
    throw error instanceof ProtocolError ? error : new ProtocolError('the file is damaged, or no recording of cellmesh');
  }
}

function isBearable(member: { originalSize: number }): boolean {
  if (member.originalSize > BYTES_MAX) {
    throw new ProtocolError('the file is larger than any recording');
  }
  return true;
}
