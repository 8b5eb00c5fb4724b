#include "memory/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* reflected */

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
}

uint32_t crc32c_by_tables(uint32_t checksum, const unsigned char *p, uint64_t size)
{
    pthread_once(&once, make_tables);
    uint32_t c = ~checksum;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word = 0;
        for (int k = 0; k < 8; k++)
            word |= (uint64_t)p[k] << (8 * k);
        word ^= c;
        c = 0;
        for (int k = 0; k < 8; k++)
            c ^= tables[7 - k][word >> (8 * k) & 0xff];
    }
    for (; size; size--, p++)
        c = c >> 8 ^ tables[0][(c ^ *p) & 0xff];
    return ~c;
}

#if defined __x86_64__ && defined __GNUC__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t checksum, const unsigned char *p,
                                                                 uint64_t size)
{
    uint64_t c = ~checksum;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; size; size--, p++)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return ~(uint32_t)c;
}

uint32_t crc32c(uint32_t checksum, const unsigned char *bytes, uint64_t size)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(checksum, bytes, size)
                                            : crc32c_by_tables(checksum, bytes, size);
}
#else
uint32_t crc32c(uint32_t checksum, const unsigned char *bytes, uint64_t size)
{
    return crc32c_by_tables(checksum, bytes, size);
}
#endif
