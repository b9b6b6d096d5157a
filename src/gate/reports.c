/* Where the reports go: looked at before the work, written after it. */
#include <string.h>

#include "formats/file.h"
#include "gate/gate_job.h"

/* What lies beside weights, and belongs to the model as they do. */
static const char *const beside[] = {"config.json", "diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json", "../model_index.json"};

enum { BESIDE = sizeof beside / sizeof *beside, CASE_FILES = 4 };

vd_status vd_gate_check_reports(const vd_gate_job *job)
{
    vd_context       *ctx      = job->ctx;
    const vd_tensors *files    = job->model->files;
    const char *const writes[] = {job->options->json_path, job->options->html_path};
    const int64_t     weights  = vd_tensors_file_count(files), count = CASE_FILES + weights * (1 + BESIDE);
    if (!writes[0] && !writes[1])
        return VD_OK;
    char    **reads  = vd_alloc(ctx, count * (int64_t)sizeof *reads, "a list of paths");
    vd_status status = reads ? VD_OK : VD_NO_MEMORY;
    int64_t   at     = 0;
    for (int i = 0; status == VD_OK && i < CASE_FILES; i++)
        if (!(reads[at++] = vd_path_join(ctx, job->c->path, i == 0 ? "case.json" : job->c->files[i - 1].file)))
            status = VD_NO_MEMORY;
    for (int64_t i = 0; status == VD_OK && i < weights; i++) {
        const char *path   = vd_tensors_file(files, i);
        char       *folder = vd_path_folder(ctx, path);
        status             = folder && (reads[at++] = vd_copy_string(ctx, path)) ? VD_OK : VD_NO_MEMORY;
        for (int k = 0; status == VD_OK && k < BESIDE; k++)
            if (!(reads[at++] = vd_path_join(ctx, folder, beside[k])))
                status = VD_NO_MEMORY;
        vd_free(ctx, folder);
    }
    if (status == VD_OK)
        status = vd_outputs_check(ctx, writes, 2, (const char *const *)reads, at);
    for (int64_t i = 0; reads && i < at; i++)
        vd_free(ctx, reads[i]);
    vd_free(ctx, reads);
    return status;
}

vd_status vd_gate_write_reports(const vd_gate_job *job)
{
    vd_context  *ctx      = job->ctx;
    const char  *json     = job->options->json_path, *html = job->options->html_path;
    vd_text_file files[2] = {{.path = json}, {.path = html}};
    char        *texts[2] = {json ? vd_gate_result_json(ctx, job->result) : NULL, NULL};
    vd_status    status   = json && !texts[0] ? ctx->status : VD_OK;
    if (texts[0])
        files[0].text = texts[0], files[0].size = (int64_t)strlen(texts[0]);
    if (status == VD_OK && html) {
        texts[1]      = vd_gate_html(ctx, job->result, &files[1].size);
        files[1].text = texts[1];
        status        = texts[1] ? VD_OK : ctx->status;
    }
    if (status == VD_OK && (json || html))
        status = vd_files_write_atomic(ctx, files, 2);
    vd_free(ctx, texts[0]);
    vd_free(ctx, texts[1]);
    return status;
}
