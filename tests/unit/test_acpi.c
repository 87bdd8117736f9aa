/* SPDX-License-Identifier: MIT
 *
 * ACPI tables as an operating system reads them (ACPI 6.4, chapter 5), and as ACPICA's compiler
 * does where it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vmm/machine_tree.h"
#include "vmm/x86/acpi.h"

#define GPA 0xe0000u

struct tables {
    uint8_t *data;
    size_t bytes;
};

static struct tables build(unsigned ncpus)
{
    struct tables tables;
    struct error err;

    assert_int_equal(acpi_build(ncpus, GPA, &tables.data, &tables.bytes, &err), 0);
    assert_true(tables.bytes <= 4096);
    return tables;
}

static uint64_t number(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, bytes);
    return value;
}

static void check_sum(const uint8_t *data, size_t bytes)
{
    uint8_t sum = 0;

    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + data[i]);
    assert_int_equal(sum, 0);
}

/* The table at gpa: inside, with this signature and a right checksum. */
static const uint8_t *table_at(const struct tables *tables, uint64_t gpa, const char *signature)
{
    const uint8_t *table = tables->data + (gpa - GPA);
    uint64_t bytes;

    assert_in_range(gpa, GPA, GPA + tables->bytes - 36);
    assert_memory_equal(table, signature, 4);
    bytes = number(table + 4, 4);
    assert_in_range(bytes, 36, tables->bytes - (gpa - GPA));
    check_sum(table, bytes);
    return table;
}

static const uint8_t *listed(const struct tables *tables, const char *signature)
{
    const uint8_t *xsdt = table_at(tables, number(tables->data + 24, 8), "XSDT");

    for (unsigned at = 36; at < number(xsdt + 4, 4); at += 8) {
        uint64_t gpa = number(xsdt + at, 8);

        if (memcmp(tables->data + (gpa - GPA), signature, 4) == 0)
            return table_at(tables, gpa, signature);
    }
    fail_msg("no %s", signature);
    return NULL;
}

static void root_pointer(void **state)
{
    struct tables tables = build(1);

    (void)state;
    assert_memory_equal(tables.data, "RSD PTR ", 8);
    check_sum(tables.data, 20);
    check_sum(tables.data, 36);
    assert_int_equal(tables.data[15], 2);
    assert_int_equal(number(tables.data + 16, 4), 0);
    assert_int_equal(number(tables.data + 20, 4), 36);
    free(tables.data);
}

static void fixed_table(void **state)
{
    struct tables tables = build(1);
    const uint8_t *fadt = listed(&tables, "FACP");
    static const uint8_t reset[] = {1, 8, 0, 1, 0xf9, 0x0c, 0, 0, 0, 0, 0, 0, 6};
    static const uint8_t sleep[] = {1, 8, 0, 1, 0x00, 0x06, 0, 0, 0, 0, 0, 0,
                                    1, 8, 0, 1, 0x01, 0x06, 0, 0, 0, 0, 0, 0};

    (void)state;
    assert_int_equal(number(fadt + 4, 4), 276);
    (void)table_at(&tables, number(fadt + 40, 4), "DSDT");
    assert_int_equal(number(fadt + 140, 8), number(fadt + 40, 4));
    assert_int_equal(number(fadt + 109, 2), 1u << 2 | 1u << 5); /* neither VGA nor CMOS clock */
    assert_int_equal(number(fadt + 112, 4) & (1u << 20 | 1u << 10), 1u << 20 | 1u << 10);
    assert_memory_equal(fadt + 116, reset, sizeof(reset));
    assert_memory_equal(fadt + 244, sleep, sizeof(sleep));
    free(tables.data);
}

static void every_cpu(void **state)
{
    (void)state;
    for (unsigned ncpus = 1; ncpus <= MACHINE_MAX_CPUS; ncpus++) {
        struct tables tables = build(ncpus);
        const uint8_t *madt = listed(&tables, "APIC");
        unsigned cpus = 0, ioapics = 0, at = 44;

        assert_int_equal(number(madt + 36, 4), 0xfee00000);
        assert_int_equal(number(madt + 40, 4), 0);
        while (at < number(madt + 4, 4)) {
            if (madt[at] == 0) {
                assert_int_equal(madt[at + 3], cpus++);
                assert_int_equal(number(madt + at + 4, 4), 1);
            } else if (madt[at] == 1) {
                assert_int_equal(number(madt + at + 4, 4), 0xfec00000);
                assert_int_equal(number(madt + at + 8, 4), 0);
                ioapics++;
            }
            assert_true(madt[at + 1] > 0);
            at += madt[at + 1];
        }
        assert_int_equal(at, number(madt + 4, 4));
        assert_int_equal(cpus, ncpus);
        assert_int_equal(ioapics, 1);
        free(tables.data);
    }
}

static void write_table(const char *directory, const char *name, const uint8_t *table)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s.aml", directory, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(table, 1, number(table + 4, 4), file), number(table + 4, 4));
    assert_int_equal(fclose(file), 0);
}

/* The shell says what it thinks is wrong; nothing is quoted, for the paths are ours. */
static void run(const char *directory, const char *script)
{
    char command[2048];

    (void)snprintf(command, sizeof(command), "cd %s && %s", directory, script);
    if (system(command) != 0)
        fail_msg("iasl does not agree; in %s: %s", directory, script);
}

/* Disassembled without a complaint, says what it should, and compiles to the same bytes again. */
static void iasl_agrees(void **state)
{
    char directory[] = "/tmp/pageferry-acpi.XXXXXX";
    struct tables tables = build(16);
    const uint8_t *fadt = listed(&tables, "FACP");

    (void)state;
    if (system("command -v iasl >/dev/null") != 0) {
        print_message("no iasl here (Debian: acpica-tools)\n");
        free(tables.data);
        skip();
    }
    assert_non_null(mkdtemp(directory));
    write_table(directory, "facp", fadt);
    write_table(directory, "apic", listed(&tables, "APIC"));
    write_table(directory, "xsdt", table_at(&tables, number(tables.data + 24, 8), "XSDT"));
    write_table(directory, "dsdt", table_at(&tables, number(fadt + 40, 4), "DSDT"));
    run(directory, "iasl -d *.aml >log 2>&1 && ! grep -iE 'error|warning|invalid|incorrect' log");
    run(directory, "! grep -iE 'error|warning|invalid|incorrect' *.dsl");
    run(directory,
        "grep -q PNP0501 dsdt.dsl && grep -q 0x03F8 dsdt.dsl && grep -q 0x00000004 dsdt.dsl"
        " && grep -q '_S5' dsdt.dsl");
    run(directory, "grep -q 'Hardware Reduced.* : 1' facp.dsl");
    run(directory, "cp dsdt.aml dsdt.ours && iasl -oa -p again dsdt.dsl >log 2>&1 && "
                   "tail -c +37 dsdt.ours >a && tail -c +37 again.aml >b && cmp a b");
    run(directory, "rm -r \"$PWD\"");
    free(tables.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_pointer),
        cmocka_unit_test(fixed_table),
        cmocka_unit_test(every_cpu),
        cmocka_unit_test(iasl_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
