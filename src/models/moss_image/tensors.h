/* The tensors of a MOSS-Image checkpoint: one list of names, shapes and places, for whoever reads, makes or describes one. */
#ifndef VD_MOSS_TENSORS_H
#define VD_MOSS_TENSORS_H

#include "models/moss_image/moss_image.h"

enum { VD_MOSS_TENSOR_NAME = 64 };

typedef struct vd_moss_tensor {
    char       name[VD_MOSS_TENSOR_NAME]; /* "layers.7.proj.q.weight" */
    vd_dtype   type;                      /* VD_BF16; VD_F32 for rope.bands */
    int        rank;
    int64_t    shape[2];
    vd_weight *weight;                    /* its place in the weights given to vd_moss_tensor_at; NULL if none were given */
} vd_moss_tensor;

int64_t vd_moss_tensor_count(const vd_moss_config *config); /* 463 as published */
/* Tensor `index`, in the order of the forward. With `weights` its blocks must be allocated. */
void vd_moss_tensor_at(const vd_moss_config *config, vd_moss_weights *weights, int64_t index, vd_moss_tensor *out);

#endif
