/* The nodes of MOSS-Image's forward: the points where a value can be given, tapped, gated or altered. In order of execution they are
 * numbered 0 … count-1; the names are those of cases, dumps, taps and reports. */
#ifndef VD_MOSS_NODES_H
#define VD_MOSS_NODES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum vd_moss_node {
    /* before the blocks */
    VD_MOSS_TIME,     /* "time"     [dim] */
    VD_MOSS_MOD,      /* "mod"      [6, dim]: shift, scale, gate of attention, then of the FFN */
    VD_MOSS_HEAD_MOD, /* "head_mod" [2, dim]: shift, scale */
    VD_MOSS_VIDEO,    /* "video"    [image rows, dim] */
    VD_MOSS_TEXT_IN,  /* "text.in"  [text rows, dim] */
    VD_MOSS_TEXT_0,   /* "text.0" */
    VD_MOSS_TEXT_1,   /* "text.1" */
    VD_MOSS_X0,       /* "x.0"      [rows, dim]: image rows, then text rows */
    /* inside block n: "bn.…" */
    VD_MOSS_A,        /* .a     [rows, dim]: norm, modulated */
    VD_MOSS_Q,        /* .q     before the head norm */
    VD_MOSS_K,
    VD_MOSS_V,
    VD_MOSS_Q_ROT,    /* .q_rot normalised and rotated */
    VD_MOSS_K_ROT,
    VD_MOSS_ATT,      /* .att */
    VD_MOSS_O,        /* .o */
    VD_MOSS_MID,      /* .mid   after the attention residual */
    VD_MOSS_B,        /* .b     norm, modulated */
    VD_MOSS_UG,       /* .ug    [rows, 2·ffn_dim]: up, then gate */
    VD_MOSS_SITU,     /* .situ  [rows, ffn_dim] */
    VD_MOSS_DOWN,     /* .down */
    VD_MOSS_X,        /* "x.n+1": rows after block n */
    /* after the blocks */
    VD_MOSS_VELOCITY, /* "velocity" [channels, h, w] F32 */
    VD_MOSS_NODES
} vd_moss_node;

enum { VD_MOSS_NODE_NAME = 32, VD_MOSS_FRONT_NODES = VD_MOSS_A, VD_MOSS_BLOCK_NODES = VD_MOSS_VELOCITY - VD_MOSS_A };

int64_t vd_moss_node_count(int64_t layers);
/* Number of a node; `block` counts for nodes inside blocks only. */
int64_t      vd_moss_node_index(vd_moss_node node, int64_t block, int64_t layers);
vd_moss_node vd_moss_node_at(int64_t index, int64_t layers, int64_t *block);
void         vd_moss_node_name(int64_t index, int64_t layers, char name[VD_MOSS_NODE_NAME]);
/* -1 when no node has the name. */
int64_t vd_moss_node_find(const char *name, int64_t layers);

/* The nodes whose values this one reads: fills inputs[] (room for 3), returns their number. The first is the one that `x` stands for.
 * With `skipped`, block n's last node passes the rows of the block before it. */
int vd_moss_node_inputs(int64_t index, int64_t layers, bool skipped, int64_t inputs[3]);

/* Whether `name` is in a comma-separated list of patterns, in which * stands for any run of characters. NULL holds nothing. */
bool vd_moss_name_matches(const char *patterns, const char *name);
/* Whether it is there by itself, without a star. */
bool vd_moss_name_listed(const char *patterns, const char *name);

#endif
