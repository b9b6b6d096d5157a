#include "audit/order_probe.h"

#include <stdio.h>
#include <string.h>

static void add_place(vd_places *places, int64_t at)
{
    if (places->count < VD_PROBE_PLACES && (places->count == 0 || at > places->at[places->count - 1]))
        places->at[places->count++] = at;
}

vd_places vd_probe_places(int64_t k, int parts)
{
    static const int64_t wanted[] = {0, 1, 2, 3, 8, 15, 16, 17, 31, 32, 127, 128, 511, 512, 1023, 1024};
    const size_t         count = parts > 1 ? 7 : sizeof wanted / sizeof wanted[0];
    vd_places            places = {.count = 0};
    for (size_t i = 0; i < count && wanted[i] < k - 1; i++)
        add_place(&places, wanted[i]);
    for (int part = 1; part < parts; part++) {
        add_place(&places, k / parts * part);
        add_place(&places, k / parts * part + 16);
    }
    add_place(&places, k - 1);
    return places;
}

int vd_probe_pairs(const vd_places *places) { return places->count * (places->count - 1) / 2; }

void vd_probe_pair(const vd_places *places, int pair, int *i, int *j)
{
    int row = 0;
    while (pair >= places->count - 1 - row)
        pair -= places->count - 1 - row++;
    *i = row;
    *j = row + 1 + pair;
}

bool vd_order_same(const vd_order_tree *a, const vd_order_tree *b)
{
    for (int i = 0; i < a->places.count; i++)
        for (int j = i + 1; j < a->places.count; j++)
            if (a->sizes[i][j] != b->sizes[i][j])
                return false;
    return a->places.count == b->places.count;
}

typedef struct writer {
    const vd_order_tree *tree;
    char                *text;
    size_t               size, used;
} writer;

static void put(writer *w, const char *text)
{
    const size_t n = strlen(text);
    if (w->used + n + 1 > w->size) {
        w->size = 0; /* full: what comes later may not fill the gap */
        return;
    }
    memcpy(w->text + w->used, text, n + 1);
    w->used += n;
}

static int64_t size_of(const vd_order_tree *tree, int i, int j) { return i < j ? tree->sizes[i][j] : tree->sizes[j][i]; }

static void print_node(writer *w, const int *members, int count, int depth);

/* What joins a running sum at one node: one place, several at once, or a sum of its own. */
static void print_group(writer *w, const int *group, int n, int64_t level, int depth)
{
    bool together = true;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            together = together && size_of(w->tree, group[a], group[b]) == level;
    put(w, n == 1 ? "" : together ? "{" : "(");
    if (together) {
        for (int a = 0; a < n; a++) {
            char number[24];
            snprintf(number, sizeof number, "%s%lld", a ? " " : "", (long long)w->tree->places.at[group[a]]);
            put(w, number);
        }
    } else {
        print_node(w, group, n, depth + 1);
    }
    put(w, n == 1 ? "" : together ? "}" : ")");
}

/* The running sum that starts at the first member: what meets it at the smallest node comes first. */
static void print_node(writer *w, const int *members, int count, int depth)
{
    int64_t levels[VD_PROBE_PLACES]; /* sizes of the nodes above the first member, ascending */
    int     level_count = 0;
    if (depth > VD_PROBE_PLACES) {
        put(w, "?");
        return;
    }
    for (int m = 1; m < count; m++) {
        const int64_t size = size_of(w->tree, members[0], members[m]);
        int           at   = 0;
        while (at < level_count && levels[at] < size)
            at++;
        if (at < level_count && levels[at] == size)
            continue;
        memmove(levels + at + 1, levels + at, (size_t)(level_count - at) * sizeof levels[0]);
        levels[at] = size;
        level_count++;
    }
    for (int l = 0; l < level_count; l++) {
        int group[VD_PROBE_PLACES], n = 0;
        if (l == 0)
            group[n++] = members[0];
        for (int m = 1; m < count; m++)
            if (size_of(w->tree, members[0], members[m]) == levels[l])
                group[n++] = members[m];
        if (l > 0)
            put(w, " → ");
        if (l > 0 || n > 2) {
            /* the first node's members may be one group, or a first member that a sum of others joins */
            bool together = true;
            for (int a = 1; a < n; a++)
                for (int b = a + 1; b < n; b++)
                    together = together && size_of(w->tree, group[a], group[b]) == levels[l];
            if (l > 0 || together) {
                print_group(w, group, n, levels[l], depth);
                continue;
            }
        }
        print_group(w, group, 1, levels[l], depth);
        put(w, " → ");
        print_group(w, group + 1, n - 1, levels[l], depth);
    }
    if (level_count == 0)
        print_group(w, members, 1, 0, depth);
}

void vd_order_print(const vd_order_tree *tree, char *text, size_t size)
{
    writer w = {tree, text, size, 0};
    int    members[VD_PROBE_PLACES];
    for (int i = 0; i < tree->places.count; i++)
        members[i] = i;
    text[0] = 0;
    if (tree->places.count)
        print_node(&w, members, tree->places.count, 0);
}
