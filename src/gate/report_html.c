#include "gate/gate_job.h"
vd_status vd_gate_write_html(vd_context *ctx, const vd_gate_result *result, const char *path) { (void)ctx,(void)result,(void)path; return VD_OK; }
