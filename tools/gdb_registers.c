/* SPDX-License-Identifier: MIT */
#include "tools/gdb_registers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A register of gdb's: `which` is an enum debug_register, or of ST_TYPE an st(i). */
struct gdb_register {
    const char *name;
    const char *type;
    uint8_t bytes;
    uint8_t which;
};

#define ST_TYPE "i387_ext"
#define LONG    "int64", 8
#define SHORT   "int32", 4
#define POINTER "data_ptr", 8
#define ST      ST_TYPE, DEBUG_ST_BYTES

static const struct gdb_register table[GDB_NREGISTERS] = {
    {"rax", LONG, DEBUG_RAX},
    {"rbx", LONG, DEBUG_RBX},
    {"rcx", LONG, DEBUG_RCX},
    {"rdx", LONG, DEBUG_RDX},
    {"rsi", LONG, DEBUG_RSI},
    {"rdi", LONG, DEBUG_RDI},
    {"rbp", POINTER, DEBUG_RBP},
    {"rsp", POINTER, DEBUG_RSP},
    {"r8", LONG, DEBUG_R8},
    {"r9", LONG, DEBUG_R8 + 1},
    {"r10", LONG, DEBUG_R8 + 2},
    {"r11", LONG, DEBUG_R8 + 3},
    {"r12", LONG, DEBUG_R8 + 4},
    {"r13", LONG, DEBUG_R8 + 5},
    {"r14", LONG, DEBUG_R8 + 6},
    {"r15", LONG, DEBUG_R15},
    {"rip", "code_ptr", 8, DEBUG_RIP},
    {"eflags", "i386_eflags", 4, DEBUG_RFLAGS},
    {"cs", SHORT, DEBUG_CS},
    {"ss", SHORT, DEBUG_SS},
    {"ds", SHORT, DEBUG_DS},
    {"es", SHORT, DEBUG_ES},
    {"fs", SHORT, DEBUG_FS},
    {"gs", SHORT, DEBUG_GS},
    {"st0", ST, 0},
    {"st1", ST, 1},
    {"st2", ST, 2},
    {"st3", ST, 3},
    {"st4", ST, 4},
    {"st5", ST, 5},
    {"st6", ST, 6},
    {"st7", ST, 7},
    {"fctrl", SHORT, DEBUG_FCTRL},
    {"fstat", SHORT, DEBUG_FSTAT},
    {"ftag", SHORT, DEBUG_FTAG},
    {"fiseg", SHORT, DEBUG_FISEG},
    {"fioff", SHORT, DEBUG_FIOFF},
    {"foseg", SHORT, DEBUG_FOSEG},
    {"fooff", SHORT, DEBUG_FOOFF},
    {"fop", SHORT, DEBUG_FOP},
    {"fs_base", LONG, DEBUG_FS_BASE},
    {"gs_base", LONG, DEBUG_GS_BASE},
    {"cr0", "cr0_flags", 8, DEBUG_CR0},
    {"cr2", POINTER, DEBUG_CR2},
    {"cr3", LONG, DEBUG_CR3},
    {"cr4", "cr4_flags", 8, DEBUG_CR4},
    {"efer", "efer_flags", 8, DEBUG_EFER},
};

/* Where the features of the description begin; gdb knows the first two by name. */
#define FIRST_BASE    40
#define FIRST_CONTROL 42

struct gdb_flag {
    const char *name;
    unsigned bit;
};

static const struct gdb_flag eflags[] = {
    {"CF", 0},  {"", 1},    {"PF", 2},   {"AF", 4},   {"ZF", 6},  {"SF", 7},
    {"TF", 8},  {"IF", 9},  {"DF", 10},  {"OF", 11},  {"NT", 14}, {"RF", 16},
    {"VM", 17}, {"AC", 18}, {"VIF", 19}, {"VIP", 20}, {"ID", 21}, {NULL, 0}};
/* SDM volume 3, 2.5 and 2.2.1. */
static const struct gdb_flag cr0_flags[] = {{"PE", 0},  {"MP", 1},  {"EM", 2},  {"TS", 3},
                                            {"ET", 4},  {"NE", 5},  {"WP", 16}, {"AM", 18},
                                            {"NW", 29}, {"CD", 30}, {"PG", 31}, {NULL, 0}};
static const struct gdb_flag cr4_flags[] = {
    {"VME", 0},         {"PVI", 1},   {"TSD", 2},   {"DE", 3},        {"PSE", 4},
    {"PAE", 5},         {"MCE", 6},   {"PGE", 7},   {"PCE", 8},       {"OSFXSR", 9},
    {"OSXMMEXCPT", 10}, {"UMIP", 11}, {"LA57", 12}, {"FSGSBASE", 16}, {"PCIDE", 17},
    {"OSXSAVE", 18},    {"SMEP", 20}, {"SMAP", 21}, {"PKE", 22},      {NULL, 0}};
static const struct gdb_flag efer_flags[] = {
    {"SCE", 0}, {"LME", 8}, {"LMA", 10}, {"NXE", 11}, {NULL, 0}};

size_t gdb_register_bytes(uint64_t number)
{
    return number < GDB_NREGISTERS ? table[number].bytes : 0;
}

static bool is_st(const struct gdb_register *entry)
{
    return strcmp(entry->type, ST_TYPE) == 0;
}

void gdb_register_get(const struct debug_registers *registers, unsigned number, uint8_t *bytes)
{
    const struct gdb_register *entry = &table[number];

    if (is_st(entry))
        memcpy(bytes, registers->st[entry->which], entry->bytes);
    else
        memcpy(bytes, &registers->value[entry->which], entry->bytes);
}

void gdb_register_set(struct debug_registers *registers, unsigned number, const uint8_t *bytes)
{
    const struct gdb_register *entry = &table[number];

    if (is_st(entry)) {
        memcpy(registers->st[entry->which], bytes, entry->bytes);
        return;
    }
    registers->value[entry->which] = 0;
    memcpy(&registers->value[entry->which], bytes, entry->bytes);
}

struct text {
    char *at;
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text->at + text->bytes, GDB_TARGET_XML_BYTES - text->bytes, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < GDB_TARGET_XML_BYTES - text->bytes)
        text->bytes += (size_t)length;
}

static void put_flags(struct text *text, const char *id, unsigned bytes,
                      const struct gdb_flag *flags)
{
    put(text, "<flags id=\"%s\" size=\"%u\">", id, bytes);
    for (; flags->name; flags++)
        put(text, "<field name=\"%s\" start=\"%u\" end=\"%u\"/>", flags->name, flags->bit,
            flags->bit);
    put(text, "</flags>\n");
}

static void put_registers(struct text *text, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        put(text, "<reg name=\"%s\" bitsize=\"%u\" type=\"%s\"/>\n", table[i].name,
            table[i].bytes * 8u, table[i].type);
    put(text, "</feature>\n");
}

size_t gdb_target_xml(char *buffer)
{
    struct text text = {.at = buffer};

    put(&text, "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n"
               "<target version=\"1.0\">\n<architecture>i386:x86-64</architecture>\n"
               "<feature name=\"org.gnu.gdb.i386.core\">\n");
    put_flags(&text, "i386_eflags", 4, eflags);
    put_registers(&text, 0, FIRST_BASE);
    put(&text, "<feature name=\"org.gnu.gdb.i386.segments\">\n");
    put_registers(&text, FIRST_BASE, FIRST_CONTROL);
    put(&text, "<feature name=\"pageferry.control\">\n");
    put_flags(&text, "cr0_flags", 8, cr0_flags);
    put_flags(&text, "cr4_flags", 8, cr4_flags);
    put_flags(&text, "efer_flags", 8, efer_flags);
    put_registers(&text, FIRST_CONTROL, GDB_NREGISTERS);
    put(&text, "</target>\n");
    return text.bytes;
}
