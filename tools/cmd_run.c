/* SPDX-License-Identifier: MIT
 *
 * pageferry run: describes a machine, builds it, boots an image and serves it until it ends. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/abi.h"
#include "tools/commands.h"
#include "tools/embedded_guest.h"
#include "tools/machine_host_options.h"
#include "tools/options.h"
#include "tools/server.h"
#include "vmm/base/log.h"
#include "vmm/base/size.h"

#define DEFAULT_MEMORY (64 * SIZE_MIB)

static const char help[] =
    "usage: pageferry run [OPTION…] [IMAGE]\n\n"
    "Boots IMAGE (Linux bzImage, ELF with PVH note, Multiboot), or the built-in test\n"
    "guest. Exit status: the guest's exit code; 0 after power-off and reset; 1 where\n"
    "pageferry or the guest failed, 2 for bad usage.\n\n"
    "  -m, --memory SIZE      guest RAM, e.g. 64M, 5G (default 64M)\n"
    "  -c, --cpus N           vCPUs, 1 to 16 (default 1)\n"
    "      --cpu SPEC         host, or host,-FEATURE,… to hide CPU features\n"
    "      --append STRING    command line; the built-in guest's: a workload first,\n"
    "                         hello idle dirty memcheck counter stamp echo fb\n"
    "      --initrd FILE      initrd for IMAGE\n"
    "      --control PATH     control socket (QMP) for ctl and migrate\n"
    "      --serial CONSOLE   stdio (default), null, or file:PATH\n"
    "      --backing KIND     memory: anon, memfd, thp (default) or hugetlb\n"
    "      --dirty-log KIND   for migrating: bitmap (default) or ring[:ENTRIES]\n"
    "      --exit-port PORT   I/O port that ends the guest (default 0xf4)\n"
    "      --framebuffer      16 MiB at 0xe0000000 that are no RAM (workload fb)\n"
    "      --gdb ADDRESS      debug with gdb's target remote: tcp::PORT or unix:PATH\n"
    "      --load-address A   IMAGE is flat: load it at A and start there (real mode\n"
    "                         below 1 MiB, else 32-bit protected mode)\n"
    "      --paused           do not start the guest: ctl cont does\n"
    "      --trace exits      count what vCPUs leave KVM for; a table at the end\n";

struct run_options {
    uint64_t memory_bytes, ncpus, exit_port, load_address;
    const char *cpu, *append, *backing, *dirty_log, *image, *initrd, *trace;
    bool framebuffer, paused, has_load_address;
    struct server_options server;
};

static enum options_result parse(int argc, char **argv, struct run_options *options)
{
    const char *load_address = NULL;
    const struct option_rule rules[] = {
        {"memory", 'm', OPTION_SIZE, &options->memory_bytes, 0},
        {"cpus", 'c', OPTION_NUMBER, &options->ncpus, MACHINE_MAX_CPUS},
        {"cpu", 0, OPTION_STRING, &options->cpu, 0},
        {"append", 0, OPTION_STRING, &options->append, 0},
        {"initrd", 0, OPTION_STRING, &options->initrd, 0},
        {"control", 0, OPTION_STRING, &options->server.control_path, 0},
        {"serial", 0, OPTION_STRING, &options->server.serial, 0},
        {"gdb", 0, OPTION_STRING, &options->server.gdb, 0},
        {"backing", 0, OPTION_STRING, &options->backing, 0},
        {"dirty-log", 0, OPTION_STRING, &options->dirty_log, 0},
        {"exit-port", 0, OPTION_NUMBER, &options->exit_port, UINT16_MAX},
        {"load-address", 0, OPTION_STRING, &load_address, 0},
        {"framebuffer", 0, OPTION_FLAG, &options->framebuffer, 0},
        {"paused", 0, OPTION_FLAG, &options->paused, 0},
        {"trace", 0, OPTION_STRING, &options->trace, 0},
        {NULL, 0, OPTION_FLAG, NULL, 0}};
    struct error err;
    char **operands;
    int noperands;
    enum options_result result = options_parse(argc, argv, rules, help, &operands, &noperands);

    if (result != OPTIONS_GO)
        return result;
    if (noperands > 1) {
        log_error("one image at the most: '%s' is left over", operands[1]);
        return OPTIONS_BAD;
    }
    options->image = noperands ? operands[0] : NULL;
    if (load_address) {
        options->has_load_address = true;
        if (size_parse_number(load_address, UINT64_MAX - 1, &options->load_address, &err)) {
            log_error("--load-address: %s", err.text);
            return OPTIONS_BAD;
        }
    }
    if (!options->image && (options->has_load_address || options->initrd)) {
        log_error("%s needs an IMAGE", options->initrd ? "--initrd" : "--load-address");
        return OPTIONS_BAD;
    }
    return OPTIONS_GO;
}

/* Maps a file that is to be loaded. */
static int map_file(const char *path, struct loader_blob *blob, struct error *err)
{
    struct stat info;
    void *mapping;
    int code = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO must not keep us */

    if (fd < 0 || fstat(fd, &info)) {
        code = errno;
    } else if (S_ISDIR(info.st_mode)) {
        code = EISDIR;
    } else if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        (void)close(fd);
        return error_set(err, ENOEXEC, "%s: not an image: an empty or special file", path);
    } else {
        mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        code = mapping == MAP_FAILED ? errno : 0;
        if (!code)
            *blob = (struct loader_blob){path, mapping, (size_t)info.st_size};
    }
    if (fd >= 0)
        (void)close(fd);
    return code ? error_set(err, code, "%s: %s", path, strerror(code)) : 0;
}

static void unmap_file(const struct loader_blob *blob)
{
    if (blob->data)
        (void)munmap((void *)(uintptr_t)blob->data, blob->bytes);
}

static int load(struct machine *machine, const struct run_options *options, struct error *err)
{
    const struct loader_blob builtin = {.name = "the built-in guest",
                                        .data = embedded_guest_start,
                                        .bytes =
                                            (size_t)(embedded_guest_end - embedded_guest_start)};
    struct loader_blob kernel = {0}, initrd = {0};
    int rc = options->image ? map_file(options->image, &kernel, err) : 0;

    if (!rc && options->initrd)
        rc = map_file(options->initrd, &initrd, err);
    if (!rc) {
        const struct machine_boot boot = {.kernel = options->image ? kernel : builtin,
                                          .initrd = initrd,
                                          .load_address = options->has_load_address
                                                              ? options->load_address
                                                              : MACHINE_LOAD_BY_IMAGE};

        rc = machine_load(machine, &boot, err);
    }
    unmap_file(&kernel);
    unmap_file(&initrd);
    return rc;
}

static int describe(const struct kvm *kvm, const struct run_options *options,
                    struct machine_description *description, struct error *err)
{
    if (options->ncpus == 0)
        return error_set(err, EINVAL, "--cpus: 1 to %d vCPUs", MACHINE_MAX_CPUS);
    if (options->memory_bytes % MEMORY_PAGE_BYTES || options->memory_bytes < 2 * SIZE_MIB)
        return error_set(err, EINVAL, "--memory: at least 2M, and whole pages of 4K");
    if (strlen(options->append) > MACHINE_BOOTARGS_MAX)
        return error_set(err, EINVAL, "--append: at most %d bytes", MACHINE_BOOTARGS_MAX);
    description->memory_bytes = options->memory_bytes;
    description->framebuffer = options->framebuffer;
    description->ncpus = (unsigned)options->ncpus;
    description->exit_port = (uint16_t)options->exit_port;
    (void)snprintf(description->bootargs, sizeof(description->bootargs), "%s", options->append);
    return machine_host_cpu(kvm, options->cpu, description, err);
}

static int build(struct server *server, const struct run_options *options, struct error *err)
{
    struct machine_description *description = calloc(1, sizeof(*description));
    struct machine_host host = {0};
    struct machine *machine = NULL;
    void *fdt = NULL;
    size_t fdt_bytes = 0;
    int rc;

    if (!description)
        return error_set(err, ENOMEM, "no memory for a machine description");
    rc = machine_host_options_parse(&server->host.kvm, options->backing, options->dirty_log, &host,
                                    err);
    if (!rc)
        rc = machine_host_options_trace(options->trace, &host, err);
    if (!rc)
        rc = describe(&server->host.kvm, options, description, err);
    if (!rc)
        rc = machine_tree_build(description, &fdt, &fdt_bytes, err);
    if (!rc)
        rc = machine_create(&machine, &server->host.kvm, fdt, fdt_bytes, &host, err);
    if (!rc)
        vm_host_set_machine(&server->host, machine);
    if (!rc)
        rc = load(machine, options, err);
    free(fdt);
    free(description);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    struct run_options options = {.memory_bytes = DEFAULT_MEMORY,
                                  .ncpus = 1,
                                  .exit_port = GUEST_EXIT_PORT_DEFAULT,
                                  .cpu = "host",
                                  .append = "",
                                  .backing = "thp",
                                  .dirty_log = "bitmap",
                                  .server = {.serial = "stdio"}};
    struct server server;
    struct error err = {.text = ""};
    int rc;
    enum options_result result;

    result = parse(argc, argv, &options);
    if (result != OPTIONS_GO)
        return (int)result;
    rc = server_init(&server, &options.server, &err);
    if (!rc)
        rc = build(&server, &options, &err);
    if (!rc && !options.paused)
        rc = machine_start(server.host.machine, &err);
    if (rc) {
        log_error("%s", err.text);
        rc = rc == -EINVAL ? SERVER_EXIT_USAGE : SERVER_EXIT_FAILURE;
    } else {
        server_adopt_machine(&server);
        rc = server_run(&server);
    }
    server_destroy(&server);
    return rc;
}
