/* UTF-8 well-formedness (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF). */
#ifndef SLUICE_BASE_UTF8_H
#define SLUICE_BASE_UTF8_H

#include <stddef.h>

/* Length (1-4) of the well-formed sequence at p, of which left bytes may be read; 0 when there is none. */
size_t sl_utf8_at(const char *p, size_t left);
/* Length of text without a sequence that was cut off at its end; len when the end is whole (or was malformed in another
 * way). */
size_t sl_utf8_trim(const char *text, size_t len);

#endif
