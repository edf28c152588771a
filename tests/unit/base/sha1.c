#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "sluice/base/sha1.h"

static void check(const void *data, size_t len, const char *want) {
    uint8_t digest[SL_SHA1_SIZE];
    char hex[41];
    sl_sha1(data, len, digest);
    for (int i = 0; i < SL_SHA1_SIZE; i++)
        snprintf(hex + i * 2, 3, "%02x", digest[i]);
    assert_string_equal(hex, want);
}

static void known_digests(void **state) {
    (void)state;
    check("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check(two_blocks, strlen(two_blocks), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    static char million[1000000];
    memset(million, 'a', sizeof million);
    check(million, sizeof million, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* Lengths around the edges of the padding. */
static void edges_of_padding(void **state) {
    (void)state;
    char text[64];
    memset(text, 'x', sizeof text);
    check(text, 55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
    check(text, 56, "901305367c259952f4e7af8323f480d59f81335b");
    check(text, 64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_digests), cmocka_unit_test(edges_of_padding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
