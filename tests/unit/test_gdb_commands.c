/* SPDX-License-Identifier: MIT
 *
 * What a debugger is answered, with a guest that is an array; and what it is answered when it asks
 * for nonsense. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gdb_fake_target.h"
#include "tools/gdb_registers.h"

#define ROUNDS 200000u

static struct gdb_fake_target fake;
static struct gdb_session session;
static struct gdb_reply reply;
static const struct gdb_target target = {.ops = &gdb_fake_ops, .opaque = &fake};

static int begin(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    for (unsigned i = 0; i < FAKE_BYTES; i++)
        fake.memory[i] = (uint8_t)i;
    for (unsigned cpu = 0; cpu < FAKE_CPUS; cpu++) {
        for (unsigned i = 0; i < DEBUG_NREGISTERS; i++)
            fake.registers[cpu].value[i] = (uint64_t)(cpu + 1) << 24 | i;
        memset(fake.registers[cpu].st, (int)cpu + 0x10, sizeof(fake.registers[cpu].st));
    }
    gdb_session_begin(&session, &target);
    return 0;
}

static enum gdb_next handle(const char *body)
{
    return gdb_session_handle(&session, body, strlen(body), &reply);
}

static void expect(const char *body, const char *answer)
{
    char text[GDB_PACKET_BYTES + 1];

    if (handle(body) != GDB_NEXT_REPLY)
        fail_msg("%s is not answered", body);
    memcpy(text, reply.body, reply.bytes);
    text[reply.bytes] = '\0';
    if (strcmp(text, answer) != 0)
        fail_msg("%s: %s, not %s", body, text, answer);
}

static void stopped(enum machine_debug_cause cause, unsigned cpu, enum debug_point kind,
                    bool interrupted)
{
    const struct machine_debug_stop stop = {
        .cause = cause, .cpu = cpu, .kind = kind, .address = 0xabc0};

    gdb_session_stopped(&session, &stop, interrupted, &reply);
}

static void test_threads(void **state)
{
    (void)state;
    expect("?", "T05thread:1;");
    expect("qC", "QC1");
    expect("qfThreadInfo", "m1,2,3");
    expect("qsThreadInfo", "l");
    expect("qThreadExtraInfo,2", "764350552031");
    expect("T3", "OK");
    expect("T4", "E16");
    expect("T0", "E16");
    expect("Hg3", "OK");
    expect("qC", "QC3");
    expect("Hg0", "OK"); /* any: the one it is */
    expect("qC", "QC3");
    expect("Hg4", "E16");
    expect("Hc-1", "OK");
    expect("Hx1", "");
    expect("Hg1x", "E16");
    expect("qAttached", "1");
    expect("qCRC:0,1", "");
}

static void test_session(void **state)
{
    (void)state;
    assert_int_equal(handle("qSupported:multiprocess+;swbreak+"), GDB_NEXT_REPLY);
    assert_non_null(strstr(reply.body, "PacketSize=2100;"));
    assert_true(session.tell_swbreak && !session.tell_hwbreak);
    assert_false(session.no_ack);
    expect("QStartNoAckMode", "OK");
    assert_true(session.no_ack);
    expect("vCont?", "vCont;c;C;s;S");
    expect("vMustReplyEmpty", "");
    expect("qRcmd,00", "");
    expect("", "");
    assert_int_equal(handle("D"), GDB_NEXT_DETACH);
    assert_int_equal(handle("k"), GDB_NEXT_KILL);
    assert_int_equal(reply.bytes, 0);
    assert_int_equal(handle("vKill;1"), GDB_NEXT_KILL);
    assert_int_equal(reply.bytes, 2);
}

static void test_registers(void **state)
{
    char all[2 * GDB_ALL_REGISTERS + 2];

    (void)state;
    assert_int_equal(handle("g"), GDB_NEXT_REPLY);
    assert_int_equal(reply.bytes, 2 * GDB_ALL_REGISTERS);
    all[0] = 'G';
    memcpy(all + 1, reply.body, reply.bytes);
    all[1 + reply.bytes] = '\0';
    expect("p1", "0100000100000000");
    expect("p10", "1000000100000000"); /* rip */
    expect("p11", "11000001");         /* eflags */
    expect("p18", "10101010101010101010");
    expect("P1=8877665544332211", "OK");
    assert_int_equal(fake.registers[0].value[DEBUG_RBX], 0x1122334455667788);
    expect("P1a=00112233445566778899", "OK");
    assert_int_equal(fake.registers[0].st[2][9], 0x99);
    expect(all, "OK");
    assert_int_equal(fake.registers[0].value[DEBUG_RBX], 1 << 24 | DEBUG_RBX);
    assert_int_equal(fake.registers[0].st[2][9], 0x10);
    expect("G0000000000000000", "OK"); /* the first alone */
    assert_int_equal(fake.registers[0].value[DEBUG_RAX], 0);
    expect("Hg2", "OK");
    expect("p0", "0000000200000000");
    for (const char *const *bad =
             (const char *const[]){"p", "p2f", "p0,", "pz", "P", "P0", "P0=", "P0=00",
                                   "P0=00000000000000001", "P2f=00", "G00", "Gzz", "g0", NULL};
         *bad; bad++)
        expect(*bad, "E16");
    fake.fail = -EIO;
    expect("g", "E05");
    expect("G0000000000000000", "E05");
}

static void test_memory(void **state)
{
    (void)state;
    expect("m1000,4", "00010203");
    expect("m1000,0", "");
    expect("m2ffe,2", "feff");
    expect("m2ffe,3", "E0e");
    expect("mfff,2", "E0e");
    expect("mffffffffffffffff,2", "E0e");
    expect("M1001,2:aabb", "OK");
    expect("m1000,4", "00aabb03");
    expect("M2fff,2:0000", "E0e");
    expect("m2fff,1", "ff");
    assert_int_equal(gdb_session_handle(&session, "X1000,3:a\0b", 11, &reply), GDB_NEXT_REPLY);
    expect("m1000,3", "610062");
    expect("X1000,0:", "OK");
    for (const char *const *bad =
             (const char *const[]){"m", "m1000", "m1000,", "m,1", "m1000,1x", "m1000,2101",
                                   "m10000000000000000,1", "m1000,ffffffffffffffff", "M1000,1",
                                   "M1000,1:", "M1000,1:0", "M1000,1:000", "M1000,1:zz",
                                   "M1000,ffffffffffffffff:00", "X1000,2:a", "X1000,1:ab", NULL};
         *bad; bad++)
        expect(*bad, "E16");
}

/* The longest read there is fills a packet exactly. */
static void test_longest_read(void **state)
{
    char body[32];

    (void)state;
    (void)snprintf(body, sizeof(body), "m1000,%x", GDB_PACKET_BYTES / 2);
    assert_int_equal(handle(body), GDB_NEXT_REPLY);
    assert_int_equal(reply.bytes, GDB_PACKET_BYTES);
}

static void test_points(void **state)
{
    (void)state;
    expect("Z0,1234,1", "OK");
    assert_true(fake.inserted == 1 && fake.kind == DEBUG_POINT_SOFTWARE && fake.address == 0x1234);
    expect("Z1,1234,1", "OK");
    assert_int_equal(fake.kind, DEBUG_POINT_EXECUTE);
    expect("Z2,1238,8", "OK");
    assert_true(fake.kind == DEBUG_POINT_WRITE && fake.bytes == 8);
    expect("z4,1238,4", "OK");
    assert_true(fake.removed == 1 && fake.kind == DEBUG_POINT_ACCESS && fake.bytes == 4);
    expect("Z3,1238,4", "");
    expect("Z", "");
    expect("z9,1,1", "");
    expect("Z0", "E16");
    expect("Z0,", "E16");
    expect("Z0,1", "E16");
    expect("Z0,1,1;X", "E16");
    assert_int_equal(fake.inserted, 3);
    fake.fail = -ENOTSUP;
    expect("Z0,1234,1", "E5f");
    fake.fail = -ENOENT;
    expect("z0,1234,1", "OK");
}

static void ran(const char *body, enum machine_debug_run a, enum machine_debug_run b,
                enum machine_debug_run c)
{
    unsigned runs = fake.runs;

    assert_int_equal(handle(body), GDB_NEXT_WAIT);
    assert_int_equal(reply.bytes, 0);
    assert_int_equal(fake.runs, runs + 1);
    if (fake.each[0] != a || fake.each[1] != b || fake.each[2] != c)
        fail_msg("%s: %d %d %d", body, (int)fake.each[0], (int)fake.each[1], (int)fake.each[2]);
    assert_true(session.running);
    assert_int_equal(handle("g"), GDB_NEXT_WAIT); /* it is for the stop to come */
    assert_int_equal(handle("vCont;c"), GDB_NEXT_WAIT);
    assert_int_equal(fake.runs, runs + 1);
    session.running = false;
}

#define HOLD MACHINE_DEBUG_HOLD
#define STEP MACHINE_DEBUG_STEP
#define GO   MACHINE_DEBUG_GO

static void test_running(void **state)
{
    (void)state;
    ran("c", GO, GO, GO);
    ran("s", STEP, HOLD, HOLD);
    ran("C05", GO, GO, GO);
    ran("S05", STEP, HOLD, HOLD);
    expect("Hc2", "OK");
    ran("s", HOLD, STEP, HOLD);
    ran("s7777", HOLD, STEP, HOLD);
    assert_int_equal(fake.registers[1].value[DEBUG_RIP], 0x7777);
    ran("C05;8888", GO, GO, GO);
    assert_int_equal(fake.registers[1].value[DEBUG_RIP], 0x8888);
    ran("vCont;c", GO, GO, GO);
    ran("vCont;s:3", HOLD, HOLD, STEP);
    ran("vCont;s:3;c", GO, GO, STEP);
    ran("vCont;c:1;s:2", GO, STEP, HOLD);
    ran("vCont;S05:1;C05:-1", STEP, GO, GO);
    ran("vCont;s:0", STEP, HOLD, HOLD); /* any */
    for (const char *const *bad =
             (const char *const[]){"vCont", "vCont;", "vCont;t", "vCont;c:", "vCont;c:4",
                                   "vCont;cc", "vCont;C", "vCont;s:1;", "cxyz", "c1,", "C", "S",
                                   "Sxx", "C05x", NULL};
         *bad; bad++)
        expect(*bad, "E16");
    fake.fail = -EIO;
    expect("c", "E05");
    assert_false(session.running);
}

static void test_ends_while_running(void **state)
{
    (void)state;
    ran("c", GO, GO, GO);
    session.running = true;
    assert_int_equal(handle("k"), GDB_NEXT_KILL);
    assert_int_equal(handle("vKill;1"), GDB_NEXT_KILL);
    assert_int_equal(handle("D"), GDB_NEXT_DETACH);
}

static void expect_stop(const char *text)
{
    assert_int_equal(reply.bytes, strlen(text));
    assert_memory_equal(reply.body, text, reply.bytes);
    expect("?", text);
}

static void test_stops(void **state)
{
    (void)state;
    session.running = true;
    stopped(MACHINE_DEBUG_STEPPED, 1, DEBUG_POINT_SOFTWARE, false);
    assert_false(session.running);
    expect_stop("T05thread:2;");
    expect("qC", "QC2");
    stopped(MACHINE_DEBUG_NOTHING, 0, DEBUG_POINT_SOFTWARE, true);
    expect_stop("T02thread:2;"); /* where the user was */
    stopped(MACHINE_DEBUG_POINT, 2, DEBUG_POINT_WRITE, true);
    expect_stop("T05thread:3;watch:abc0;");
    stopped(MACHINE_DEBUG_POINT, 2, DEBUG_POINT_ACCESS, false);
    expect_stop("T05thread:3;awatch:abc0;");
    stopped(MACHINE_DEBUG_POINT, 0, DEBUG_POINT_SOFTWARE, false);
    expect_stop("T05thread:1;"); /* it never said that it knows more */
    (void)handle("qSupported:swbreak+;hwbreak+");
    stopped(MACHINE_DEBUG_POINT, 0, DEBUG_POINT_SOFTWARE, false);
    expect_stop("T05thread:1;swbreak:;");
    stopped(MACHINE_DEBUG_POINT, 0, DEBUG_POINT_EXECUTE, false);
    expect_stop("T05thread:1;hwbreak:;");
}

/* In pieces, as gdb reads it; each register once, and the sizes add up to what g sends. */
static void test_description(void **state)
{
    char xml[GDB_TARGET_XML_BYTES];
    char body[80];
    size_t bytes = 0, bits = 0;
    unsigned count = 0;

    (void)state;
    for (;;) {
        (void)snprintf(body, sizeof(body), "qXfer:features:read:target.xml:%zx,100", bytes);
        assert_int_equal(handle(body), GDB_NEXT_REPLY);
        memcpy(xml + bytes, reply.body + 1, reply.bytes - 1);
        bytes += reply.bytes - 1;
        if (reply.body[0] == 'l')
            break;
        assert_int_equal(reply.body[0], 'm');
        assert_int_equal(reply.bytes, 0x101);
    }
    xml[bytes] = '\0';
    assert_non_null(strstr(xml, "</target>\n"));
    for (const char *at = xml; (at = strstr(at, "bitsize=\"")) != NULL; at++, count++)
        bits += strtoul(at + 9, NULL, 10);
    assert_int_equal(count, GDB_NREGISTERS);
    assert_int_equal(bits, 8 * GDB_ALL_REGISTERS);
    expect("qXfer:features:read:other.xml:0,10", "E02");
    expect("qXfer:features:read:target.xml:", "E16");
    expect("qXfer:features:read:target.xml:0", "E16");
    expect("qXfer:features:read:target.xml:ffffffffffffffff,1", "E16");
    (void)snprintf(body, sizeof(body), "qXfer:features:read:target.xml:%zx,1", bytes);
    expect(body, "l");
    (void)snprintf(body, sizeof(body), "qXfer:features:read:target.xml:0,ffffffffffffffff");
    assert_int_equal(handle(body), GDB_NEXT_REPLY);
    assert_true(reply.bytes > 1 && reply.bytes <= GDB_PACKET_BYTES);
}

/* Valid packets, cut, repeated and with wrong bytes: whatever it is, there is one answer, and it
 * fits. */
static void test_mutations(void **state)
{
    static const char *const seeds[] = {"?",
                                        "g",
                                        "p10",
                                        "P10=1122334455667788",
                                        "m1000,20",
                                        "M1000,4:00112233",
                                        "X1000,2:ab",
                                        "Z0,1000,1",
                                        "z2,1000,8",
                                        "vCont;s:1;c",
                                        "c1000",
                                        "S05;1000",
                                        "Hg2",
                                        "T1",
                                        "qXfer:features:read:target.xml:0,fff",
                                        "qSupported:swbreak+",
                                        "qThreadExtraInfo,1",
                                        "D",
                                        "k"};
    uint64_t random = 7;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        char body[160] = "";
        size_t bytes = 0;
        unsigned changes;

        random = random * 6364136223846793005u + 1442695040888963407u;
        (void)strcpy(body, seeds[(random >> 33) % (sizeof(seeds) / sizeof(seeds[0]))]);
        bytes = strlen(body);
        changes = (unsigned)(random >> 50) % 5;
        for (unsigned i = 0; i < changes; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            switch (random >> 62) {
            case 0:
                body[(random >> 20) % bytes] = (char)(random >> 40);
                break;
            case 1:
                bytes = 1 + (random >> 20) % bytes;
                break;
            case 2:
                body[(random >> 20) % bytes] = ",;:=-0f"[(random >> 40) % 7];
                break;
            default:
                if (2 * bytes < sizeof(body)) {
                    memcpy(body + bytes, body, bytes);
                    bytes *= 2;
                }
                break;
            }
        }
        (void)gdb_session_handle(&session, body, bytes, &reply);
        assert_true(reply.bytes <= GDB_PACKET_BYTES && session.cpu < FAKE_CPUS &&
                    session.run_cpu < FAKE_CPUS);
        session.running = false;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_threads, begin),
        cmocka_unit_test_setup(test_session, begin),
        cmocka_unit_test_setup(test_registers, begin),
        cmocka_unit_test_setup(test_memory, begin),
        cmocka_unit_test_setup(test_longest_read, begin),
        cmocka_unit_test_setup(test_points, begin),
        cmocka_unit_test_setup(test_running, begin),
        cmocka_unit_test_setup(test_ends_while_running, begin),
        cmocka_unit_test_setup(test_stops, begin),
        cmocka_unit_test_setup(test_description, begin),
        cmocka_unit_test_setup(test_mutations, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
