/* SHA-1, for names that clients expect; never for security. */
#ifndef SLUICE_BASE_SHA1_H
#define SLUICE_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SL_SHA1_SIZE 20
void sl_sha1(const void *data, size_t len, uint8_t digest[SL_SHA1_SIZE]);

#endif
