// The members of a zip archive that holds a recording. What an archive says of itself is checked before it is believed.

import { ProtocolError } from './protocol';

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const STORED = 0;
const DEFLATED = 8;
const END_BYTES = 22;
/** The end of an archive may be followed by a comment of so many bytes. */
const COMMENT_MAX = 65_535;
/** Of one member, unpacked. */
const BYTES_MAX = 1 << 30;

/** The members by name, unpacked. Throws `ProtocolError` when it is no archive, or not one that can be read here. */
export async function unzip(archive: Uint8Array<ArrayBuffer>): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  const members = new Map<string, Uint8Array<ArrayBuffer>>();
  try {
    const end = endOf(view);
    let at = view.getUint32(end + 16, true);
    for (let left = view.getUint16(end + 10, true); left > 0; left--) {
      if (view.getUint32(at, true) !== ENTRY) {
        throw new RangeError();
      }
      const [method, packed, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
      const nameLength = view.getUint16(at + 28, true);
      const name = new TextDecoder().decode(archive.subarray(at + 46, at + 46 + nameLength));
      const local = view.getUint32(at + 42, true);
      const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      members.set(name, await unpack(archive.subarray(start, start + packed), method, size));
      at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
  } catch (error) {
    // Offsets out of range, and what the browser says of a stream that cannot be unpacked.
    throw error instanceof ProtocolError ? error : new ProtocolError('the file is damaged, or no recording of cellmesh');
  }
  return members;
}

function endOf(view: DataView): number {
  for (let at = view.byteLength - END_BYTES; at >= Math.max(0, view.byteLength - END_BYTES - COMMENT_MAX); at--) {
    if (view.getUint32(at, true) === END) {
      return at;
    }
  }
  throw new RangeError();
}

async function unpack(packed: Uint8Array<ArrayBuffer>, method: number, size: number): Promise<Uint8Array<ArrayBuffer>> {
  if (size > BYTES_MAX || (method !== STORED && method !== DEFLATED)) {
    throw new ProtocolError('the file is packed in a way that this panel does not read');
  }
  if (method === STORED) {
    return packed.slice();
  }
  const unpacked = new Uint8Array(size);
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  let filled = 0;
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    unpacked.set(value!, filled); // throws when there is more than was said
    filled += value!.length;
  }
  if (filled !== size) {
    throw new RangeError();
  }
  return unpacked;
}
