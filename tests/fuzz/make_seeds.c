/* Seeds for fuzz_weights: the smallest model in every spelling that is read. make_seeds FOLDER */
#include <stdio.h>
#include <string.h>

#include "contract/contract.h"
#include "models/moss_image/load.h"
#include "models/synthetic.h"

enum { ROOM = 192 };

static vd_status fill(void *user, vd_context *ctx, const vd_tensor *tensor, int64_t first, void *to, int64_t bytes)
{
    const int64_t size = vd_dtype_size(tensor->type);
    (void)ctx;
    if (strstr(tensor->name, "rope.bands"))
        vd_rope_bands(((vd_moss_config *)user)->rope_base, vd_moss_bands(user), to); /* one piece */
    else
        memset(to, 0x3c, (size_t)(bytes / size * size));
    (void)first;
    return VD_OK;
}

/* spelling: 0 the publisher's, 1 prefixed, 2 fused q, k, v, 3 an MLX export's. */
static vd_status write_seed(vd_context *ctx, const char *folder, vd_moss_config *c, int spelling)
{
    vd_tensor *list, out[ROOM];
    char       names[ROOM][96], path[512];
    int64_t    count, n = 0;
    vd_status  status = vd_synth_list(ctx, c, &list, &count);
    for (int64_t i = 0; status == VD_OK && i < count && n < ROOM; i++) {
        const char *name = list[i].name, *part = strstr(name, ".proj.");
        const bool  layer = strncmp(name, "layers.", 7) == 0 && part;
        if ((spelling == 2 && layer && (strstr(part, ".k.") || strstr(part, ".v."))) || (spelling == 3 && strcmp(name, "rope.bands") == 0))
            continue;
        out[n] = list[i];
        snprintf(names[n], sizeof names[n], "%s%s", spelling == 1 ? "model.diffusion_model." : "", name);
        if (spelling == 2 && layer && strstr(part, ".q.")) {
            snprintf(names[n], sizeof names[n], "%.*s.proj.qkv.weight", (int)(part - name), name);
            out[n].shape[0] *= 3;
        }
        if (spelling == 3 && strncmp(name, "time_embedding.2.", 17) == 0)
            snprintf(names[n], sizeof names[n], "time_embedding.1.%s", name + 17);
        out[n].name = names[n];
        n++;
    }
    snprintf(path, sizeof path, "%s/spelling%d.safetensors", folder, spelling);
    if (status == VD_OK)
        status = vd_tensors_write(ctx, path, out, n, NULL, fill, c);
    vd_free(ctx, list);
    return status;
}

/* A seed that is not accepted would teach the fuzzer nothing about what follows. */
static vd_status check_seed(vd_context *ctx, const char *folder, const vd_moss_config *c, int spelling)
{
    char           path[512];
    vd_moss_model *model = vd_alloc(ctx, sizeof *model, "a model");
    if (!model)
        return VD_NO_MEMORY;
    snprintf(path, sizeof path, "%s/spelling%d.safetensors", folder, spelling);
    model->config = *c;
    vd_status status = vd_tensors_open(ctx, path, &model->files);
    if (status == VD_OK)
        status = vd_moss_match(ctx, path, model);
    vd_moss_close(ctx, model);
    return status;
}

int main(int count, char **args)
{
    vd_moss_config c = {.dim = 8, .ffn_dim = 2, .heads = 1, .layers = 2, .text_dim = 4, .freq_dim = 2, .latent_channels = 2, .rope_base = 10000};
    vd_context    *ctx;
    vd_status      status = count == 2 ? vd_open(NULL, &ctx) : VD_BAD_ARGUMENT;
    for (int i = 0; status == VD_OK && i < 4; i++)
        if ((status = write_seed(ctx, args[1], &c, i)) == VD_OK)
            status = check_seed(ctx, args[1], &c, i);
    if (status != VD_OK && count == 2)
        fprintf(stderr, "make_seeds: %s\n", vd_error_text(ctx));
    if (count == 2)
        vd_close(ctx);
    return status;
}
