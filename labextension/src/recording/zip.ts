// Reads the members of the zip archive that a recording is.

import { unzipSync } from 'fflate';
import { ProtocolError } from '../protocol/errors';

/** The most bytes of all members together, unpacked. */
const BYTES_MAX = 1 << 30;

/** The members by name, unpacked. Throws `ProtocolError` when it is no archive, or not one that can be read here. */
export function unzip(archive: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  try {
    refuseTooLarge(archive);
    const members = new Map(Object.entries(unzipSync(archive) as Record<string, Uint8Array<ArrayBuffer>>));
    checkSums(archive, members);
    return members;
  } catch (error) {
    throw error instanceof ProtocolError
      ? error
      : new ProtocolError('the file is damaged, or no recording of cellmesh');
  }
}

/** Members must be what was written: the reader of Arrow loops for ever on some damage. */
function checkSums(archive: Uint8Array<ArrayBuffer>, members: Map<string, Uint8Array<ArrayBuffer>>): void {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  let end = archive.length - 22; // of the directory: behind it stands at most a comment
  while (view.getUint32(end, true) !== 0x06054b50) {
    end--;
  }
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [name, extra, comment] = [28, 30, 32].map(field => view.getUint16(at + field, true)) as [
      number,
      number,
      number
    ];
    const member = members.get(new TextDecoder().decode(archive.subarray(at + 46, at + 46 + name)));
    if (!member || crc32(member) !== view.getUint32(at + 16, true)) {
      throw new RangeError('a member is not what was written');
    }
    at += 46 + name + extra + comment;
  }
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) {
    crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return crc;
});

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) {
    crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ bytes[i]!) & 255]!;
  }
  return ~crc >>> 0;
}

/** Checked before anything is unpacked: many members may be large together, or share the same bytes of the file. */
function refuseTooLarge(archive: Uint8Array<ArrayBuffer>): void {
  let total = 0;
  const count = (member: { size: number; originalSize: number }) => {
    total += Math.max(member.size, member.originalSize);
    return false;
  };
  unzipSync(archive, { filter: count });
  if (total > BYTES_MAX) {
    throw new ProtocolError('the file is larger than any recording');
  }
}
