/* SPDX-License-Identifier: MIT
 *
 * The command line of bench migrate. */
#include <errno.h>
#include <string.h>

#include "migrate/precopy.h"
#include "tools/bench_engine_writer.h"
#include "tools/bench_migrate.h"
#include "vmm/base/clock.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define NOT_GIVEN      UINT64_MAX
#define MOST_REPEAT    10000u
#define BLOCK          (2ull * SIZE_MIB)
#define LEAST_MEMORY   (32ull * SIZE_MIB)
#define MOST_MEMORY    (1ull << 40)
#define DEFAULT_REPEAT 9
#define DEFAULT_SET    (64ull * SIZE_MIB)
#define MOST_LIMIT_NS  (2000ull * CLOCK_NS_PER_SEC)

static const char help[] =
    "usage: pageferry bench migrate [OPTION…]\n\n"
    "Migrates a guest over TCP loopback again and again, by turns with a raw copy of\n"
    "the same size, and watches its RAM from outside. The first turn warms up.\n\n"
    "      --engine             RAM without a guest: needs no KVM\n"
    "      --touched SIZE       how much of that holds something (default: all)\n"
    "      --dirty-rate N       pages of it that are stored to meanwhile, a second\n"
    "      --dirty-set SIZE     … of so much of it, in turn (default 64M)\n"
    "      --dirty-random       … not in turn but at random\n"
    "  -m, --memory SIZE        guest RAM (default 1G)\n"
    "      --backing KIND       memfd (default) or hugetlb; with --engine also thp\n"
    "                           (its default) or anon\n"
    "      --workload WORDS     of the guest (default 'idle fill=all')\n"
    "      --vcpus N            (default 1)\n"
    "      --streams N          as of pageferry migrate, like the next three\n"
    "      --max-bandwidth R    bytes a second\n"
    "      --downtime-limit T   e.g. 300us, 50ms\n"
    "      --dirty-log KIND     get, clear or ring\n"
    "      --repeat N           migrations that count (default 9)\n"
    "      --once               a single migration, and no raw copy beside it\n"
    "      --json               one JSON object instead of the table\n";

static int check_engine(const struct bench_migrate_config *config, bool touched, uint64_t vcpus,
                        struct error *err)
{
    if (!config->engine) {
        if (touched || config->dirty_rate || config->dirty_bytes || config->dirty_random)
            return error_set(err, EINVAL,
                             "--touched, --dirty-rate, --dirty-set and --dirty-random belong to "
                             "--engine");
        return 0;
    }
    if (config->workload || vcpus != NOT_GIVEN || config->dirty_log)
        return error_set(err, EINVAL,
                         "--engine has no guest: leave out --workload, --vcpus and --dirty-log");
    if ((config->dirty_bytes || config->dirty_random) && !config->dirty_rate)
        return error_set(err, EINVAL, "--dirty-%s says nothing without --dirty-rate",
                         config->dirty_bytes ? "set" : "random");
    /* What is stored to is compared at the end only where everything is. */
    if (config->dirty_rate && touched)
        return error_set(err, EINVAL, "--dirty-rate and --touched do not go together");
    return 0;
}

static int check_sizes(const struct bench_migrate_config *config, struct error *err)
{
    if (config->memory_bytes < LEAST_MEMORY || config->memory_bytes > MOST_MEMORY ||
        config->memory_bytes % BLOCK)
        return error_set(err, EINVAL, "--memory: a multiple of 2M from 32M to 1024G is possible");
    if (config->touched_bytes < BLOCK || config->touched_bytes > config->memory_bytes ||
        config->touched_bytes % BLOCK)
        return error_set(err, EINVAL, "--touched: a multiple of 2M up to --memory is possible");
    if (config->dirty_bytes % MEMORY_PAGE_BYTES || config->dirty_bytes > config->memory_bytes ||
        config->dirty_bytes > MEMORY_GAP_START)
        return error_set(err, EINVAL, "--dirty-set: whole pages up to --memory and 3G");
    if (config->max_bandwidth && config->max_bandwidth < PRECOPY_MIN_BANDWIDTH)
        return error_set(err, EINVAL, "--max-bandwidth: 64K bytes a second at least, or 0");
    if (config->downtime_limit_ns > MOST_LIMIT_NS)
        return error_set(err, EINVAL, "--downtime-limit: at most 2000s");
    if (!config->streams)
        return error_set(err, EINVAL, "--streams: 1 to %d", WIRE_MAX_STREAMS);
    if (!config->repeat)
        return error_set(err, EINVAL, "--repeat 0 measures nothing: 1 is the least");
    if (!config->engine && !config->ncpus)
        return error_set(err, EINVAL, "--vcpus: a guest has at least 1");
    if (!config->engine && config->backing != MEMORY_MEMFD && config->backing != MEMORY_HUGETLB)
        return error_set(err, EINVAL,
                         "--backing %s: an observer cannot map that: memfd and hugetlb are "
                         "possible",
                         memory_backing_name(config->backing));
    return 0;
}

enum options_result bench_migrate_options(int argc, char **argv,
                                          struct bench_migrate_config *config)
{
    uint64_t repeat = DEFAULT_REPEAT, touched = NOT_GIVEN, vcpus = NOT_GIVEN;
    const char *backing = NULL;
    const struct option_rule rules[] = {
        {"engine", 0, OPTION_FLAG, &config->engine, 0},
        {"touched", 0, OPTION_SIZE, &touched, 0},
        {"memory", 'm', OPTION_SIZE, &config->memory_bytes, 0},
        {"backing", 0, OPTION_STRING, &backing, 0},
        {"workload", 0, OPTION_STRING, &config->workload, 0},
        {"vcpus", 0, OPTION_NUMBER, &vcpus, 16},
        {"streams", 0, OPTION_NUMBER, &config->streams, WIRE_MAX_STREAMS},
        {"dirty-rate", 0, OPTION_NUMBER, &config->dirty_rate, ENGINE_WRITER_MAX_RATE},
        {"dirty-set", 0, OPTION_SIZE, &config->dirty_bytes, 0},
        {"dirty-random", 0, OPTION_FLAG, &config->dirty_random, 0},
        {"max-bandwidth", 0, OPTION_SIZE, &config->max_bandwidth, 0},
        {"downtime-limit", 0, OPTION_DURATION, &config->downtime_limit_ns, 0},
        {"dirty-log", 0, OPTION_STRING, &config->dirty_log, 0},
        {"repeat", 0, OPTION_NUMBER, &repeat, MOST_REPEAT},
        {"once", 0, OPTION_FLAG, &config->once, 0},
        {"json", 0, OPTION_FLAG, &config->json, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0},
    };
    enum options_result parsed;
    struct error err = {""};
    char **operands;
    int noperands, rc;

    *config = (struct bench_migrate_config){
        .memory_bytes = SIZE_GIB, .streams = 1, .downtime_limit_ns = PRECOPY_DOWNTIME_LIMIT_NS};
    parsed = options_parse(argc, argv, rules, help, &operands, &noperands);
    if (parsed != OPTIONS_GO)
        return parsed;
    if (noperands) {
        log_error("bench migrate takes no operand: '%s' is left over", operands[0]);
        return OPTIONS_BAD;
    }
    rc = check_engine(config, touched != NOT_GIVEN, vcpus, &err);
    if (!rc)
        rc = memory_backing_parse(backing          ? backing
                                  : config->engine ? "thp"
                                                   : "memfd",
                                  &config->backing, &err);
    config->repeat = config->once ? 1 : (unsigned)repeat;
    config->touched_bytes = touched != NOT_GIVEN ? touched : config->memory_bytes;
    config->ncpus = vcpus != NOT_GIVEN ? (unsigned)vcpus : 1;
    if (config->dirty_rate && !config->dirty_bytes)
        config->dirty_bytes =
            DEFAULT_SET < config->memory_bytes ? DEFAULT_SET : config->memory_bytes;
    if (!config->workload)
        config->workload = "idle fill=all";
    if (!rc)
        rc = check_sizes(config, &err);
    if (rc)
        log_error("%s", err.text);
    return rc ? OPTIONS_BAD : OPTIONS_GO;
}
