/* The bare patterns of names, without the bounds on length that usually come with them. */
#ifndef SLUICE_API_FORMATS_H
#define SLUICE_API_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

bool sl_label_chars(const char *s, size_t n);     /* [a-z0-9]([-a-z0-9]*[a-z0-9])? */
bool sl_subdomain_chars(const char *s, size_t n); /* the same, joined by dots */
bool sl_name_chars(const char *s, size_t n);      /* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9] */

#endif
