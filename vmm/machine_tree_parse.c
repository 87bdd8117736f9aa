/* SPDX-License-Identifier: MIT
 *
 * Device tree -> description. The tree may come from a peer: libfdt checks its structure first,
 * then every node and property must be one that the rules know, once, with a value in range. What
 * this version does not know it cannot honour, so it is refused, unless its name starts with
 * "opt,". */
#include <errno.h>
#include <inttypes.h>
#include <libfdt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/machine_tree.h"
#include "vmm/machine_tree_internal.h"

#define OPTIONAL_PREFIX "opt,"
#define FDT_VERSION     17 /* Devicetree Specification 0.3, section 5.2 */

static bool is_optional(const char *name)
{
    return strncmp(name, OPTIONAL_PREFIX, strlen(OPTIONAL_PREFIX)) == 0;
}

static int take_fixed(struct tree_parser *p, const struct tree_property_rule *rule,
                      const uint8_t *data, unsigned bytes)
{
    if (rule->text) {
        bool same = bytes == strlen(rule->text) + 1 && memcmp(data, rule->text, bytes) == 0;
        return same ? 0 : machine_tree_bad(p, rule->name, "not the value of this version");
    }
    if (bytes != rule->ncells * sizeof(uint32_t))
        return machine_tree_bad(p, rule->name, "wrong length");
    for (unsigned i = 0; i < rule->ncells; i++) {
        if (machine_tree_cell(data, i) != rule->cells[i])
            return machine_tree_bad(p, rule->name, "not the value of this version");
    }
    if (strcmp(rule->name, "reg") == 0)
        p->unit = rule->cells[0];
    return 0;
}

static int parse_property(struct tree_parser *p, const struct tree_property_rule *rules, int offset,
                          uint32_t *seen)
{
    const char *name = NULL;
    int bytes = 0;
    const uint8_t *data = fdt_getprop_by_offset(p->fdt, offset, &name, &bytes);

    if (!data || !name || bytes < 0)
        return machine_tree_bad(p, "", "a property that cannot be read");
    if (is_optional(name))
        return 0;
    for (unsigned i = 0; rules[i].name; i++) {
        const struct tree_property_rule *rule = &rules[i];

        if (strcmp(name, rule->name) != 0)
            continue;
        if (*seen & 1u << i)
            return machine_tree_bad(p, name, "twice");
        *seen |= 1u << i;
        if (rule->take)
            return rule->take(p, name, data, (unsigned)bytes);
        return take_fixed(p, rule, data, (unsigned)bytes);
    }
    return machine_tree_bad(p, name, "unknown property");
}

static int parse_properties(struct tree_parser *p, const struct tree_property_rule *rules, int node)
{
    uint32_t seen = 0;
    int offset = fdt_first_property_offset(p->fdt, node);

    for (; offset >= 0; offset = fdt_next_property_offset(p->fdt, offset)) {
        int result = parse_property(p, rules, offset, &seen);
        if (result)
            return result;
    }
    if (offset != -FDT_ERR_NOTFOUND)
        return machine_tree_bad(p, "", fdt_strerror(offset));
    for (unsigned i = 0; rules[i].name; i++) {
        if (!(seen & 1u << i))
            return machine_tree_bad(p, rules[i].name, "missing property");
    }
    return 0;
}

/* The rule whose name is `name` up to its '@', or NULL. */
static const struct tree_node_rule *find_rule(const struct tree_node_rule *rules, const char *name)
{
    for (; rules->name; rules++) {
        size_t length = strlen(rules->name);

        if (strncmp(name, rules->name, length) == 0 && name[length] == (rules->has_unit ? '@' : 0))
            return rules;
    }
    return NULL;
}

static int check_unit(struct tree_parser *p, const struct tree_node_rule *rule, const char *name)
{
    char expected[TREE_PATH_BYTES];

    if (!rule->has_unit)
        return 0;
    (void)snprintf(expected, sizeof(expected), "%s@%" PRIx64, rule->name, p->unit);
    return strcmp(name, expected) == 0 ? 0 : machine_tree_bad(p, "reg", "not the node's address");
}

static int parse_node(struct tree_parser *p, const struct tree_node_rule *rule, int node);

/* Recursion follows the rules, not the tree: its depth is theirs. */
static int parse_child(struct tree_parser *p, const struct tree_node_rule *rules, int node,
                       uint32_t *seen)
{
    int length = 0;
    const char *name = fdt_get_name(p->fdt, node, &length);
    const struct tree_node_rule *rule;
    size_t parent = strlen(p->path);
    int result;

    if (!name)
        return machine_tree_bad(p, "", "a node without a name");
    if (is_optional(name))
        return 0;
    (void)snprintf(p->path + parent, sizeof(p->path) - parent, "%s%s",
                   parent && p->path[parent - 1] == '/' ? "" : "/", name);
    rule = find_rule(rules, name);
    if (!rule)
        return machine_tree_bad(p, "", "unknown node");
    if (rule->count != TREE_NODE_MANY && *seen & 1u << (rule - rules))
        return machine_tree_bad(p, "", "a second node of this kind");
    *seen |= 1u << (rule - rules);
    result = parse_node(p, rule, node);
    if (!result)
        result = check_unit(p, rule, name);
    if (!result)
        p->path[parent] = '\0';
    return result;
}

static int parse_node(struct tree_parser *p, const struct tree_node_rule *rule, int node)
{
    uint32_t seen = 0;
    uint64_t unit;
    int child;
    int result = parse_properties(p, rule->properties, node);

    if (result)
        return result;
    unit = p->unit;
    for (child = fdt_first_subnode(p->fdt, node); child >= 0;
         child = fdt_next_subnode(p->fdt, child)) {
        result = parse_child(p, rule->children, child, &seen);
        if (result)
            return result;
    }
    if (child != -FDT_ERR_NOTFOUND)
        return machine_tree_bad(p, "", fdt_strerror(child));
    p->unit = unit;
    for (unsigned i = 0; rule->children[i].name; i++) {
        if (rule->children[i].count != TREE_NODE_OPTIONAL && !(seen & 1u << i)) {
            char what[TREE_PATH_BYTES];
            (void)snprintf(what, sizeof(what), "missing node %s", rule->children[i].name);
            return machine_tree_bad(p, "", what);
        }
    }
    return 0;
}

static int parse_tree(struct tree_parser *p)
{
    int result = parse_node(p, &machine_tree_root, 0);

    if (result)
        return result;
    p->out->ncpus = (unsigned)__builtin_popcount(p->cpus_seen);
    if (p->cpus_seen != (1u << p->out->ncpus) - 1) {
        (void)snprintf(p->path, sizeof(p->path), "/cpus");
        return machine_tree_bad(p, "", "vCPU numbers have a gap");
    }
    return machine_tree_check(p->out, EPROTO, "device tree: ", p->err);
}

int machine_tree_parse(const void *fdt, size_t fdt_bytes, struct machine_description *description,
                       struct error *err)
{
    struct tree_parser parser = {.out = description, .err = err, .path = "/"};
    void *copy;
    int result;

    memset(description, 0, sizeof(*description));
    if (fdt_bytes < sizeof(struct fdt_header) || fdt_bytes > MACHINE_TREE_MAX_BYTES)
        return error_set(err, EPROTO, "device tree: %zu bytes, not %zu to %u", fdt_bytes,
                         sizeof(struct fdt_header), MACHINE_TREE_MAX_BYTES);
    /* libfdt wants eight-byte alignment, and a tree may lie anywhere in a message. */
    copy = malloc(fdt_bytes);
    if (!copy)
        return error_set(err, ENOMEM, "no memory for the device tree");
    memcpy(copy, fdt, fdt_bytes);
    result = fdt_check_full(copy, fdt_bytes);
    if (result) {
        result = error_set(err, EPROTO, "device tree: not well-formed: %s", fdt_strerror(result));
        goto out;
    }
    if (fdt_version(copy) != FDT_VERSION || fdt_totalsize(copy) != fdt_bytes) {
        result = error_set(err, EPROTO,
                           "device tree: version %u of %u bytes, expected version %d of %zu",
                           fdt_version(copy), fdt_totalsize(copy), FDT_VERSION, fdt_bytes);
        goto out;
    }
    parser.fdt = copy;
    result = parse_tree(&parser);
out:
    free(copy);
    return result;
}
