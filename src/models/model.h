/* Inside the library: the family's own model behind a public handle. */
#ifndef VD_MODEL_H
#define VD_MODEL_H

#include "models/moss_image/moss_image.h"

const vd_moss_model *vd_model_moss(const vd_model *model);

/* Policy, arithmetic and match alone: are they known, and do they go together? */
vd_status vd_model_check_choices(vd_context *ctx, const vd_forward_options *options);

#endif
