#include "models/moss_image/nodes.h"

#include <stdio.h>
#include <string.h>

static const char *const names[VD_MOSS_NODES] = {
    [VD_MOSS_TIME] = "time",   [VD_MOSS_MOD] = "mod",       [VD_MOSS_HEAD_MOD] = "head_mod", [VD_MOSS_VIDEO] = "video",
    [VD_MOSS_TEXT_IN] = "text.in", [VD_MOSS_TEXT_0] = "text.0", [VD_MOSS_TEXT_1] = "text.1", [VD_MOSS_X0] = "x.0",
    [VD_MOSS_A] = "a",         [VD_MOSS_Q] = "q",           [VD_MOSS_K] = "k",               [VD_MOSS_V] = "v",
    [VD_MOSS_Q_ROT] = "q_rot", [VD_MOSS_K_ROT] = "k_rot",   [VD_MOSS_ATT] = "att",           [VD_MOSS_O] = "o",
    [VD_MOSS_MID] = "mid",     [VD_MOSS_B] = "b",           [VD_MOSS_UG] = "ug",             [VD_MOSS_SITU] = "situ",
    [VD_MOSS_DOWN] = "down",   [VD_MOSS_X] = "x",           [VD_MOSS_VELOCITY] = "velocity",
};

int64_t vd_moss_node_count(int64_t layers) { return VD_MOSS_FRONT_NODES + layers * VD_MOSS_BLOCK_NODES + 1; }

int64_t vd_moss_node_index(vd_moss_node node, int64_t block, int64_t layers)
{
    if (node < VD_MOSS_A)
        return node;
    if (node == VD_MOSS_VELOCITY)
        return vd_moss_node_count(layers) - 1;
    return VD_MOSS_FRONT_NODES + block * VD_MOSS_BLOCK_NODES + (node - VD_MOSS_A);
}

vd_moss_node vd_moss_node_at(int64_t index, int64_t layers, int64_t *block)
{
    *block = -1;
    if (index < VD_MOSS_FRONT_NODES)
        return (vd_moss_node)index;
    if (index == vd_moss_node_count(layers) - 1)
        return VD_MOSS_VELOCITY;
    *block = (index - VD_MOSS_FRONT_NODES) / VD_MOSS_BLOCK_NODES;
    return (vd_moss_node)(VD_MOSS_A + (index - VD_MOSS_FRONT_NODES) % VD_MOSS_BLOCK_NODES);
}

void vd_moss_node_name(int64_t index, int64_t layers, char name[VD_MOSS_NODE_NAME])
{
    int64_t            block;
    const vd_moss_node node = vd_moss_node_at(index, layers, &block);
    if (node == VD_MOSS_X)
        snprintf(name, VD_MOSS_NODE_NAME, "x.%lld", (long long)block + 1);
    else if (block >= 0)
        snprintf(name, VD_MOSS_NODE_NAME, "b%lld.%s", (long long)block, names[node]);
    else
        snprintf(name, VD_MOSS_NODE_NAME, "%s", names[node]);
}

/* Decimal digits without sign or leading zero; -1 otherwise. Sets *end. */
static int64_t read_number(const char *text, const char **end)
{
    int64_t value = 0;
    *end          = text;
    while (**end >= '0' && **end <= '9' && value < 1000000)
        value = value * 10 + (*(*end)++ - '0');
    return *end == text || (text[0] == '0' && *end != text + 1) ? -1 : value;
}

int64_t vd_moss_node_find(const char *name, int64_t layers)
{
    const char *rest;
    for (int node = 0; node < VD_MOSS_A; node++)
        if (strcmp(name, names[node]) == 0)
            return node;
    if (strcmp(name, "velocity") == 0)
        return vd_moss_node_count(layers) - 1;
    if (strncmp(name, "x.", 2) == 0) {
        const int64_t n = read_number(name + 2, &rest);
        return n >= 1 && n <= layers && *rest == 0 ? vd_moss_node_index(VD_MOSS_X, n - 1, layers) : -1;
    }
    if (name[0] == 'b') {
        const int64_t n = read_number(name + 1, &rest);
        if (n >= 0 && n < layers && *rest == '.')
            for (int node = VD_MOSS_A; node < VD_MOSS_X; node++)
                if (strcmp(rest + 1, names[node]) == 0)
                    return vd_moss_node_index((vd_moss_node)node, n, layers);
    }
    return -1;
}

int vd_moss_node_inputs(int64_t index, int64_t layers, bool skipped, int64_t inputs[3])
{
    int64_t            block;
    const vd_moss_node node     = vd_moss_node_at(index, layers, &block);
    const int64_t      previous = block > 0 ? vd_moss_node_index(VD_MOSS_X, block - 1, layers) : VD_MOSS_X0; /* the rows entering this block */
    const int64_t      base     = vd_moss_node_index(VD_MOSS_A, block, layers) - VD_MOSS_A;                  /* + a node: that node of this block */
    switch (node) {
    case VD_MOSS_TIME:
    case VD_MOSS_VIDEO:
    case VD_MOSS_TEXT_IN: return 0;
    case VD_MOSS_MOD:
    case VD_MOSS_HEAD_MOD: return inputs[0] = VD_MOSS_TIME, 1;
    case VD_MOSS_TEXT_0: return inputs[0] = VD_MOSS_TEXT_IN, 1;
    case VD_MOSS_TEXT_1: return inputs[0] = VD_MOSS_TEXT_0, 1;
    case VD_MOSS_X0: return inputs[0] = VD_MOSS_VIDEO, inputs[1] = VD_MOSS_TEXT_1, 2;
    case VD_MOSS_A: return inputs[0] = previous, inputs[1] = VD_MOSS_MOD, 2;
    case VD_MOSS_Q:
    case VD_MOSS_K:
    case VD_MOSS_V: return inputs[0] = base + VD_MOSS_A, 1;
    case VD_MOSS_Q_ROT: return inputs[0] = base + VD_MOSS_Q, 1;
    case VD_MOSS_K_ROT: return inputs[0] = base + VD_MOSS_K, 1;
    case VD_MOSS_ATT: return inputs[0] = base + VD_MOSS_Q_ROT, inputs[1] = base + VD_MOSS_K_ROT, inputs[2] = base + VD_MOSS_V, 3;
    case VD_MOSS_O: return inputs[0] = base + VD_MOSS_ATT, 1;
    case VD_MOSS_MID: return inputs[0] = base + VD_MOSS_O, inputs[1] = previous, inputs[2] = VD_MOSS_MOD, 3;
    case VD_MOSS_B: return inputs[0] = base + VD_MOSS_MID, inputs[1] = VD_MOSS_MOD, 2;
    case VD_MOSS_UG: return inputs[0] = base + VD_MOSS_B, 1;
    case VD_MOSS_SITU: return inputs[0] = base + VD_MOSS_UG, 1;
    case VD_MOSS_DOWN: return inputs[0] = base + VD_MOSS_SITU, 1;
    case VD_MOSS_X:
        if (skipped)
            return inputs[0] = previous, 1;
        return inputs[0] = base + VD_MOSS_DOWN, inputs[1] = base + VD_MOSS_MID, inputs[2] = VD_MOSS_MOD, 3;
    case VD_MOSS_VELOCITY:
        inputs[0] = layers > 0 ? vd_moss_node_index(VD_MOSS_X, layers - 1, layers) : VD_MOSS_X0;
        return inputs[1] = VD_MOSS_HEAD_MOD, 2;
    case VD_MOSS_NODES: break;
    }
    return 0;
}

/* Only the last star met is ever tried again, so the time is pattern times name, whatever the pattern. */
static bool matches(const char *pattern, const char *end, const char *name)
{
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (pattern < end && *pattern == '*') {
            star  = pattern++;
            retry = name;
        } else if (pattern < end && *pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name    = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

static bool find_pattern(const char *patterns, const char *name, bool exact)
{
    while (patterns && *patterns) {
        const size_t size = strcspn(patterns, ",");
        if (exact ? strlen(name) == size && memcmp(patterns, name, size) == 0 : matches(patterns, patterns + size, name))
            return true;
        patterns += size + (patterns[size] == ',');
    }
    return false;
}

bool vd_moss_name_matches(const char *patterns, const char *name) { return find_pattern(patterns, name, false); }
bool vd_moss_name_listed(const char *patterns, const char *name) { return find_pattern(patterns, name, true); }
