#include "gate/case_copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/file.h"

static const char *const files[] = {"inputs.safetensors", "nodes.safetensors", "runs.safetensors", "case.json"};

static char *joined(char room[512], const char *folder, const char *name)
{
    snprintf(room, 512, "%s/%s", folder, name);
    return room;
}

void case_copy_restore(const case_copy *copy, const char *from)
{
    char a[512], b[512];
    for (int i = 0; i < 4; i++) {
        vd_mapping map;
        assert_int_equal(vd_file_map(copy->ctx, joined(a, from, files[i]), &map), VD_OK);
        assert_int_equal(vd_file_write_atomic(copy->ctx, joined(b, copy->path, files[i]), map.data, map.size), VD_OK);
        vd_file_unmap(&map);
    }
}

void case_copy_open(case_copy *copy, vd_context *ctx, const char *from)
{
    char path[512];
    *copy = (case_copy){.ctx = ctx};
    snprintf(copy->path, sizeof copy->path, "/tmp/verdit-case-XXXXXX");
    assert_non_null(mkdtemp(copy->path));
    case_copy_restore(copy, from);
    copy->json = json_load_file(joined(path, copy->path, "case.json"), 0, NULL);
    assert_non_null(copy->json);
}

void case_copy_close(case_copy *copy)
{
    char path[512];
    for (int i = 0; i < 4; i++)
        unlink(joined(path, copy->path, files[i]));
    rmdir(copy->path);
    json_decref(copy->json);
}

void case_copy_write_text(const case_copy *copy, const char *text)
{
    char path[512];
    assert_int_equal(vd_file_write_atomic(copy->ctx, joined(path, copy->path, "case.json"), text, (int64_t)strlen(text)), VD_OK);
}

void case_copy_write(const case_copy *copy, const json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1));
    assert_non_null(text);
    case_copy_write_text(copy, text);
    free(text);
}

json_t *case_copy_change_tensor(const case_copy *copy, const char *file, const char *name, const vd_tensor *with)
{
    char        path[512], other[600], name_of_file[64], digits[65];
    vd_tensors *old;
    snprintf(name_of_file, sizeof name_of_file, "%s.safetensors", file);
    joined(path, copy->path, name_of_file);
    assert_int_equal(vd_tensors_open(copy->ctx, path, &old), VD_OK);
    const int64_t count = vd_tensors_count(old);
    vd_tensor    *list  = calloc((size_t)count + 1, sizeof *list);
    int64_t       kept  = 0;
    bool          found = false;
    assert_non_null(list);
    for (int64_t i = 0; i < count; i++) {
        const vd_tensor *tensor = vd_tensors_get(old, i);
        const bool       it     = strcmp(tensor->name, name) == 0;
        found |= it;
        if (it && !with)
            continue;
        list[kept] = it ? *with : *tensor;
        list[kept++].name = tensor->name;
    }
    if (!found && with) {
        list[kept]        = *with;
        list[kept++].name = name;
    }
    snprintf(other, sizeof other, "%s.new", path);
    assert_int_equal(vd_tensors_write(copy->ctx, other, list, kept, NULL, NULL, NULL), VD_OK);
    vd_tensors_close(copy->ctx, old);
    free(list);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(vd_hash_file(copy->ctx, path, digits), VD_OK);
    json_t *json = json_deep_copy(copy->json);
    json_object_set_new(json_object_get(json_object_get(json, "files"), file), "sha256", json_string(digits));
    return json;
}
