/* UTF-8 well-formedness. */
#include "sluice/base/utf8.h"

size_t sl_utf8_at(const char *text, size_t left) {
    const unsigned char *p = (const unsigned char *)text;
    if (!left)
        return 0;
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : (p[0] & 0xf0) == 0xe0       ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

size_t sl_utf8_trim(const char *text, size_t len) {
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)text[len - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == len)
        return len;
    unsigned char first = (unsigned char)text[len - 1 - back];
    size_t want = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return want > back + 1 ? len - 1 - back : len;
}
