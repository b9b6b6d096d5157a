/* Inside the library: the family's own model behind a public handle. */
#ifndef VD_MODEL_H
#define VD_MODEL_H

#include "models/moss_image/moss_image.h"

const vd_moss_model *vd_model_moss(const vd_model *model);

#endif
