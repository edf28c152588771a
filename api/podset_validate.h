/* The pod template of a Workload's pod set (rules that the open schema leaves to us). */
#ifndef SLUICE_API_PODSET_VALIDATE_H
#define SLUICE_API_PODSET_VALIDATE_H

#include "sluice/api/fielderr.h"

void sl_check_template(const struct sl_json *template, const struct sl_path *path, struct sl_fielderrs *l);

#endif
