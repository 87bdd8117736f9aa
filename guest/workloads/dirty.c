#include "guest/workloads/workloads.h"
static const struct param params[] = {{.key = NULL}};
const struct workload workload_dirty = {.name = "dirty", .about = "", .params = params};
