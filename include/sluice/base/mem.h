/*
 * Checked allocation for small sizes that no input drives: failure aborts. Sizes that input drives go through sl_buf,
 * which has a limit and returns an error.
 */
#ifndef SLUICE_BASE_MEM_H
#define SLUICE_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

void *sl_xalloc(size_t size)
    __attribute__((malloc, returns_nonnull)); /* zeroed; abort() on failure; release with free() */
void *sl_xrealloc(void *old, size_t count, size_t size)
    __attribute__((returns_nonnull));            /* count*size checked for overflow; abort() on failure */
char *sl_xstrdup(const char *text);              /* NULL gives NULL; release with free() */
char *sl_xstrndup(const char *text, size_t len); /* copies exactly len bytes and ends them with NUL */
char *sl_xprintf(const char *format, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
char *sl_xvprintf(const char *format, va_list args)
    __attribute__((format(printf, 1, 0), returns_nonnull)); /* release with free() */

/* Grows array items (of cap elements) so that index n exists; doubling. The branches are in functions, so that tests of
 * each place where it stands need not take them all. */
#define SL_GROW(items, cap, n)                                                                                         \
    do {                                                                                                               \
        size_t sl_old_cap = (size_t)(cap), sl_new_cap = sl_cap_for(sl_old_cap, (size_t)(n));                           \
        (items) = sl_resized((items), sl_old_cap, sl_new_cap, sizeof *(items));                                        \
        (cap) = (__typeof__(cap))sl_new_cap;                                                                           \
    } while (0)
size_t sl_larger_cap(size_t cap, size_t n); /* more than n, doubling */
static inline size_t sl_cap_for(size_t cap, size_t n) {
    return n < cap ? cap : sl_larger_cap(cap, n);
}
static inline void *sl_resized(void *items, size_t old_cap, size_t cap, size_t size) {
    return cap == old_cap ? items : sl_xrealloc(items, cap, size);
}

#define SL_TAKE(p)                                                                                                     \
    ({                                                                                                                 \
        __typeof__(p) sl_taken = (p);                                                                                  \
        (p) = NULL;                                                                                                    \
        sl_taken;                                                                                                      \
    })
#define SL_AUTO_FREE __attribute__((cleanup(sl_cleanup_free)))
void sl_cleanup_free(void *pp); /* free(*(void **)pp) */
#define SL_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Programming errors only, never bad input: writes the text and aborts, since a restart from the API server is safe and
 * wrong quota is not. */
#define SL_ASSERT(cond) ((cond) ? (void)0 : sl_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void sl_assert_failed(const char *what, const char *file, int line);

#endif
