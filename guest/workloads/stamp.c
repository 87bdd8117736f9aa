#include "guest/workloads/workloads.h"
static const struct param params[] = {{.key = NULL}};
const struct workload workload_stamp = {.name = "stamp", .about = "", .params = params};
