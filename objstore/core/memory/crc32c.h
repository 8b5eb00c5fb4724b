/* CRC-32C (Castagnoli), as in iSCSI and ext4. By the processor's instruction where it has one, some 8 GB/s, else by
 * tables. */
#ifndef CELLMESH_CRC32C_H
#define CELLMESH_CRC32C_H

#include <stdint.h>

/* Of bytes that follow those whose checksum is given; 0 at the beginning. */
uint32_t crc32c(uint32_t checksum, const unsigned char *bytes, uint64_t size);
/* the same, on any processor */
uint32_t crc32c_by_tables(uint32_t checksum, const unsigned char *bytes, uint64_t size);

#endif
