/* Writing: whole or not at all, never through a link; what is written reads back. And JSON, in and out. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/file.h"
#include "formats/json.h"
#include "formats/safetensors.h"

typedef struct place {
    vd_context *ctx;
    char        folder[64];
    char        path[128];
} place;

static int set_up(void **state)
{
    static place p;
    snprintf(p.folder, sizeof p.folder, "/tmp/verdit-files-XXXXXX");
    if (!mkdtemp(p.folder) || vd_open(NULL, &p.ctx) != VD_OK)
        return -1;
    snprintf(p.path, sizeof p.path, "%s/out", p.folder);
    *state = &p;
    return 0;
}

/* Removes what a test left; the tests themselves assert that there is no more than they made. */
static int tear_down(void **state)
{
    place *p   = *state;
    DIR   *dir = opendir(p->folder);
    char   name[512];
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(name, sizeof name, "%s/%s", p->folder, e->d_name);
            if (unlink(name) != 0)
                rmdir(name);
        }
    if (dir)
        closedir(dir);
    vd_close(p->ctx);
    return rmdir(p->folder);
}

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int  n   = -2; /* . and .. */
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void assert_failure(place *p, vd_status got, vd_status status, const char *reason, const char *part)
{
    assert_int_equal(got, status);
    assert_string_equal(vd_error_reason(p->ctx), reason);
    if (!strstr(vd_error_text(p->ctx), part))
        fail_msg("\"%s\" does not say \"%s\"", vd_error_text(p->ctx), part);
    vd_clear_error(p->ctx);
}

static void assert_content(const char *path, const char *wanted)
{
    char  text[256];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_string_equal(text, wanted);
}

/* ---- Atomic writing ---- */

static void test_replaces_whole(void **state)
{
    place *p = *state;
    assert_int_equal(vd_file_write_atomic(p->ctx, p->path, "one", 3), VD_OK);
    assert_int_equal(vd_file_write_atomic(p->ctx, p->path, "two, longer", 11), VD_OK);
    assert_content(p->path, "two, longer");
    assert_int_equal(count_entries(p->folder), 1);
}

static void test_abandoned_leaves_the_old(void **state)
{
    place     *p = *state;
    vd_writer *w;
    assert_int_equal(vd_file_write_atomic(p->ctx, p->path, "old", 3), VD_OK);
    assert_int_equal(vd_writer_open(p->ctx, p->path, 0, &w), VD_OK);
    assert_int_equal(vd_writer_put(p->ctx, w, "half", 4), VD_OK);
    assert_content(p->path, "old"); /* until the commit */
    vd_writer_abandon(p->ctx, w);
    assert_content(p->path, "old");
    assert_int_equal(count_entries(p->folder), 1);
}

static void test_links_are_not_followed(void **state)
{
    place *p = *state;
    char   model[128];
    snprintf(model, sizeof model, "%s/model", p->folder);
    assert_int_equal(vd_file_write_atomic(p->ctx, model, "weights", 7), VD_OK);
    assert_int_equal(symlink(model, p->path), 0);
    assert_failure(p, vd_file_write_atomic(p->ctx, p->path, "x", 1), VD_IO, "output-path", "link");
    assert_content(model, "weights");
    unlink(model); /* and a dangling one */
    assert_failure(p, vd_file_write_atomic(p->ctx, p->path, "x", 1), VD_IO, "output-path", "link");
    assert_int_equal(count_entries(p->folder), 1);
}

static void test_bad_targets(void **state)
{
    place *p = *state;
    char   path[200];
    assert_int_equal(mkdir(p->path, 0700), 0);
    assert_failure(p, vd_file_write_atomic(p->ctx, p->path, "x", 1), VD_IO, "output-path", "a folder");
    snprintf(path, sizeof path, "%s/absent/out", p->folder);
    assert_failure(p, vd_file_write_atomic(p->ctx, path, "x", 1), VD_IO, "output-path", "does not exist");
    assert_failure(p, vd_file_write_atomic(p->ctx, "/dev/null", "x", 1), VD_IO, "output-path", "no regular file");
    assert_failure(p, vd_file_write_atomic(p->ctx, "", "x", 1), VD_IO, "output-path", "name of a file");
    snprintf(path, sizeof path, "%s/", p->folder);
    assert_failure(p, vd_file_write_atomic(p->ctx, path, "x", 1), VD_IO, "output-path", "name of a file");
    assert_int_equal(count_entries(p->folder), 1);
}

/* No room: announced before the first byte when the size is known; else found while writing. */
static void test_no_room(void **state)
{
    place        *p = *state;
    vd_writer    *w;
    struct rlimit old, small;
    static char   block[1 << 16];
    assert_failure(p, vd_writer_open(p->ctx, p->path, INT64_MAX, &w), VD_IO, "disk-full", "9223372036854775807");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small          = old;
    small.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &small);
    const vd_status status = vd_file_write_atomic(p->ctx, p->path, block, sizeof block);
    assert_int_equal(vd_writer_open(p->ctx, p->path, 0, &w), VD_OK);
    vd_status second = vd_writer_put(p->ctx, w, block, sizeof block);
    if (second == VD_OK)
        second = vd_writer_put(p->ctx, w, block, sizeof block);
    vd_writer_abandon(p->ctx, w);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, VD_OK);
    assert_failure(p, second, VD_IO, "write-failed", "100000 bytes");
    assert_int_equal(count_entries(p->folder), 1);
}

/* ---- Reading ---- */

static void test_only_files_are_read(void **state)
{
    place      *p = *state;
    vd_mapping  map;
    char       *text;
    int64_t     size;
    assert_failure(p, vd_file_map(p->ctx, p->path, &map), VD_IO, "no-such-file", p->path);
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_failure(p, vd_file_map(p->ctx, p->path, &map), VD_BAD_FILE, "not-a-file", "a pipe");
    assert_failure(p, vd_file_read(p->ctx, "/dev/zero", 100, "big", &text, &size), VD_BAD_FILE, "not-a-file", "a device");
    assert_failure(p, vd_file_map(p->ctx, p->folder, &map), VD_BAD_FILE, "not-a-file", "a folder");
    unlink(p->path);
    assert_int_equal(symlink("nowhere", p->path), 0);
    assert_failure(p, vd_file_map(p->ctx, p->path, &map), VD_BAD_FILE, "not-a-file", "not there");
    unlink(p->path);
    assert_int_equal(symlink(p->path, p->path), 0);
    assert_failure(p, vd_file_map(p->ctx, p->path, &map), VD_BAD_FILE, "not-a-file", "back to itself");
    unlink(p->path);
    assert_int_equal(vd_file_write_atomic(p->ctx, p->path, "12345", 5), VD_OK);
    assert_failure(p, vd_file_read(p->ctx, p->path, 4, "too-long", &text, &size), VD_BAD_FILE, "too-long", "at most 4");
}

/* ---- Tensors out and in ---- */

static vd_status fill_counting(void *user, vd_context *ctx, const vd_tensor *tensor, int64_t first, void *to, int64_t bytes)
{
    const int64_t stop = *(const int64_t *)user;
    (void)tensor;
    if (stop >= 0 && first >= stop)
        return vd_fail(ctx, VD_CANCELLED, "cancelled", "stopped at byte %lld", (long long)first);
    for (int64_t i = 0; i < bytes / 4; i++)
        ((int32_t *)to)[i] = (int32_t)(first / 4 + i);
    return VD_OK;
}

static void test_tensors_round_trip(void **state)
{
    place            *p = *state;
    const float       x[3] = {1.5f, -2, 3};
    const uint8_t     u[3] = {7, 8, 9};
    int64_t           stop = -1;
    const int64_t     many = 3 << 20;
    const char *const metadata[] = {"format", "pt", "note", "\"quotes\"\n\xc3\xbc", NULL};
    const vd_tensor   tensors[]  = {
        {.name = "z.\"odd\"/\xc3\xa9", .type = VD_F32, .rank = 2, .shape = {3, 1}, .data = (void *)(uintptr_t)x},
        {.name = "a", .type = VD_U8, .rank = 1, .shape = {3}, .data = (void *)(uintptr_t)u},
        {.name = "big", .type = VD_I32, .rank = 1, .shape = {many}},
        {.name = "empty", .type = VD_BF16, .rank = 2, .shape = {0, 5}},
        {.name = "one", .type = VD_F32, .rank = 0, .data = (void *)(uintptr_t)x},
    };
    vd_tensors *read;
    assert_int_equal(vd_tensors_write(p->ctx, p->path, tensors, 5, metadata, fill_counting, &stop), VD_OK);
    assert_int_equal(vd_tensors_open(p->ctx, p->path, &read), VD_OK);
    assert_int_equal(vd_tensors_count(read), 5);
    assert_string_equal(vd_tensors_get(read, 0)->name, "a");
    assert_string_equal(vd_tensors_get(read, 4)->name, tensors[0].name);
    assert_null(vd_tensors_get(read, 5));
    assert_null(vd_tensors_get(read, -1));
    assert_null(vd_tensors_find(read, "b"));
    assert_string_equal(vd_tensors_metadata(read, "note"), metadata[3]);
    assert_int_equal(vd_tensors_metadata_count(read), 2);
    assert_null(vd_tensors_metadata(read, "absent"));
    for (int i = 0; i < 5; i++) {
        const vd_tensor *t = vd_tensors_find(read, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->type, tensors[i].type);
        assert_int_equal(t->rank, tensors[i].rank);
        assert_memory_equal(t->shape, tensors[i].shape, sizeof t->shape);
        if (tensors[i].data)
            assert_memory_equal(t->data, tensors[i].data, (size_t)vd_tensor_bytes(t));
    }
    const char *big = vd_tensors_find(read, "big")->data;
    for (int64_t i = 0; i < many; i += 4097) {
        int32_t value;
        memcpy(&value, big + 4 * i, 4);
        assert_int_equal(value, i);
    }
    vd_tensors_close(p->ctx, read);

    /* The header: padded to 8 bytes with spaces, names ascending, equal bytes for equal input. */
    vd_mapping map;
    assert_int_equal(vd_file_map(p->ctx, p->path, &map), VD_OK);
    assert_int_equal(map.data[0] % 8, 0);
    assert_memory_equal(map.data + 8, "{\"__metadata__\":{\"format\":\"pt\",", 31);
    assert_non_null(strstr((const char *)map.data + 8, "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"big\":"));
    vd_file_unmap(&map);

    stop = 8 << 20; /* fails in the middle: nothing new appears, the old file stays */
    const int before = count_entries(p->folder);
    assert_failure(p, vd_tensors_write(p->ctx, p->path, tensors, 5, metadata, fill_counting, &stop), VD_CANCELLED, "cancelled", "8388608");
    assert_int_equal(count_entries(p->folder), before);
    assert_int_equal(vd_tensors_open(p->ctx, p->path, &read), VD_OK);
    vd_tensors_close(p->ctx, read);
}

static void test_writer_refuses(void **state)
{
    place    *p = *state;
    float     x = 1;
    vd_tensor t[2] = {{.name = "a", .type = VD_F32, .rank = 1, .shape = {1}, .data = &x}, {.name = "a", .type = VD_F32, .rank = 1, .shape = {1}, .data = &x}};
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "duplicate-name", "\"a\"");
    t[1].name = "__metadata__";
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "bad-name", "__metadata__");
    t[1].name = "\xff";
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "bad-name", "name");
    t[1].name = "b", t[1].shape[0] = -1;
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "bad-shape", "[-1]");
    t[1].rank = 2, t[1].shape[0] = t[1].shape[1] = (int64_t)1 << 31;
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "bad-shape", "2147483648");
    t[1].rank = 1, t[1].shape[0] = 1, t[1].data = NULL;
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "no-data", "\"b\"");
    t[1].data = &x, t[1].type = VD_F8_E4M3;
    assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 2, NULL, NULL, NULL), VD_BAD_ARGUMENT, "unsupported-dtype", "F8_E4M3");
    const char *const bad[3][5] = {{"a", "\xff", NULL}, {"a", "1", "a", "2", NULL}, {"a", NULL}};
    for (int i = 0; i < 3; i++)
        assert_failure(p, vd_tensors_write(p->ctx, p->path, t, 0, bad[i], NULL, NULL), VD_BAD_ARGUMENT, "bad-metadata", "\"a\"");
    assert_int_equal(count_entries(p->folder), 0);
    assert_int_equal(vd_tensors_write(p->ctx, p->path, t, 0, NULL, NULL, NULL), VD_OK); /* nothing is a legal file */
}

/* Names that are as long, or as odd, as they like stay out of messages' way. */
static void test_messages_stay_short(void **state)
{
    (void)state;
    char long_name[3000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    for (int i = 0; i < 2997; i += 3)
        memcpy(long_name + i, "\xe6\x9d\x83", 3);
    const vd_quoted q = vd_quote(long_name);
    assert_true(strlen(q.text) < sizeof q.text - 1);
    assert_int_equal(vd_utf8_find_fault(q.text, (int64_t)strlen(q.text)), -1);
    const char *names[40];
    for (int i = 0; i < 40; i++)
        names[i] = "layers.0.proj.q.weight";
    assert_non_null(strstr(vd_list_names(names, 40).text, "and 28 more"));
    for (int i = 0; i < 40; i++)
        names[i] = long_name;
    const vd_listed l = vd_list_names(names, 40);
    assert_true(strlen(l.text) < sizeof l.text - 1);
    assert_non_null(strstr(l.text, " more"));
    int64_t large[VD_MAX_RANK];
    for (int i = 0; i < VD_MAX_RANK; i++)
        large[i] = INT64_MAX;
    assert_string_equal(vd_shape_print(large, VD_MAX_RANK).text + 157, "807]");
}

/* ---- JSON ---- */

static void parse(place *p, const char *text, vd_status status, const char *reason)
{
    static const vd_json_reasons reasons = {"syntax", "utf8", "number"};
    json_t *value;
    assert_int_equal(vd_json_parse(p->ctx, "f", text, (int64_t)strlen(text), &reasons, &value), status);
    assert_string_equal(vd_error_reason(p->ctx), reason);
    vd_clear_error(p->ctx);
    json_decref(value);
}

static void test_json_strict(void **state)
{
    place *p = *state;
    char   deep[2 * VD_JSON_DEPTH + 8];
    parse(p, "{\"a\": [1, 2.5, null, true, \"x\"]}  \n", VD_OK, "");
    parse(p, "3", VD_OK, "");
    parse(p, "", VD_BAD_FILE, "syntax");
    parse(p, " \n", VD_BAD_FILE, "syntax");
    parse(p, "\xef\xbb\xbf{}", VD_BAD_FILE, "syntax");
    parse(p, "{} x", VD_BAD_FILE, "syntax");
    parse(p, "{\"a\":1,}", VD_BAD_FILE, "syntax");
    parse(p, "{\"a\":1 /* */}", VD_BAD_FILE, "syntax");
    parse(p, "[NaN]", VD_BAD_FILE, "syntax");
    parse(p, "[01]", VD_BAD_FILE, "syntax");
    parse(p, "{\"a\":1, \"\\u0061\":2}", VD_BAD_FILE, "duplicate-name");
    parse(p, "{\"a\\u0000\":1}", VD_BAD_FILE, "bad-name");
    parse(p, "[\"\xc0\xaf\"]", VD_BAD_FILE, "utf8");
    parse(p, "[\"\xed\xa0\x80\"]", VD_BAD_FILE, "utf8");
    parse(p, "[\"\xf4\x90\x80\x80\"]", VD_BAD_FILE, "utf8");
    parse(p, "[18446744073709551616]", VD_BAD_FILE, "number");
    parse(p, "[1e999]", VD_BAD_FILE, "number");
    for (int over = 0; over <= 1; over++) {
        const int n = VD_JSON_DEPTH + over;
        memset(deep, '[', (size_t)n);
        memset(deep + n, ']', (size_t)n);
        deep[2 * n] = 0;
        parse(p, deep, over ? VD_BAD_FILE : VD_OK, over ? "json-depth" : "");
    }
}

/* A hundred megabytes of empty arrays are refused before anything is built from them. */
static void test_json_bomb(void **state)
{
    static const vd_json_reasons reasons = {"syntax", "utf8", "number"};
    place        *p    = *state;
    const int64_t n    = VD_JSON_VALUES + 10, size = 3 * n + 1;
    char         *text = vd_alloc(p->ctx, size, "a bomb");
    json_t       *value;
    assert_non_null(text);
    text[0] = '[';
    for (int64_t i = 0; i < n; i++)
        memcpy(text + 1 + 3 * i, i + 1 < n ? "[]," : "[]]", 3);
    assert_failure(p, vd_json_parse(p->ctx, "f", text, size, &reasons, &value), VD_BAD_FILE, "json-size", "values");
    vd_free(p->ctx, text);
}

static void test_json_print(void **state)
{
    place  *p     = *state;
    json_t *value = json_pack("{s:s, s:[i,i], s:f, s:f, s:f, s:[], s:{}, s:n, s:b, s:[s,s]}", "text", "a\"\\\n\x01\x7f\xc3\xbc", "pair", 1, -2, "third",
                              1.0 / 3, "whole", 2.0, "small", 1e-300, "none", "nothing", "null", "yes", 1, "long", "a string of more than 24 bytes", "b");
    char   *text  = vd_json_print(p->ctx, value, true, NULL);
    assert_string_equal(text, "{\n  \"text\": \"a\\\"\\\\\\n\\u0001\\u007f\xc3\xbc\",\n  \"pair\": [1, -2],\n  \"third\": 0.3333333333333333,\n  \"whole\": 2.0,\n"
                              "  \"small\": 1e-300,\n  \"none\": [],\n  \"nothing\": {},\n  \"null\": null,\n  \"yes\": true,\n"
                              "  \"long\": [\n    \"a string of more than 24 bytes\",\n    \"b\"\n  ]\n}\n");
    vd_free(p->ctx, text);
    assert_int_equal(vd_json_write(p->ctx, p->path, value), VD_OK);
    json_t *again;
    assert_int_equal(vd_json_read(p->ctx, p->path, 1000, "x", &again), VD_OK);
    assert_true(json_equal(value, again));
    json_decref(again);
    json_decref(value);
    value = json_array();
    assert_int_equal(vd_json_write(p->ctx, p->path, value), VD_OK);
    assert_failure(p, vd_json_read(p->ctx, p->path, 1000, "x-json", &again), VD_BAD_FILE, "x-json", "an array");
    json_decref(value);
}

static void test_json_members(void **state)
{
    place           *p  = *state;
    const vd_json_in in = {p->ctx, "f.json", "case"};
    json_t          *o  = json_pack("{s:i, s:f, s:s, s:[], s:{}, s:b, s:n}", "i", 7, "f", 2.5, "s", "text", "a", "o", "b", 0, "n");
    int64_t          i;
    double           f;
    bool             b;
    const char      *s;
    json_t          *v;
    assert_int_equal(vd_json_integer_of(&in, o, "i", 0, 7, &i), VD_OK);
    assert_int_equal(i, 7);
    assert_failure(p, vd_json_integer_of(&in, o, "i", 0, 6, &i), VD_BAD_FILE, "case-range", "0 to 6");
    assert_failure(p, vd_json_integer_of(&in, o, "f", 0, 6, &i), VD_BAD_FILE, "case-type", "an integer is needed");
    assert_failure(p, vd_json_integer_of(&in, o, "x", 0, 6, &i), VD_BAD_FILE, "case-missing-key", "\"x\" is missing");
    assert_int_equal(vd_json_number_of(&in, o, "f", 0, 3, &f), VD_OK);
    assert_true(f == 2.5);
    assert_failure(p, vd_json_number_of(&in, o, "f", 3, 4, &f), VD_BAD_FILE, "case-range", "2.5");
    assert_int_equal(vd_json_text_of(&in, o, "s", &s), VD_OK);
    assert_string_equal(s, "text");
    assert_failure(p, vd_json_text_of(&in, o, "n", &s), VD_BAD_FILE, "case-type", "null");
    assert_int_equal(vd_json_array_of(&in, o, "a", &v), VD_OK);
    assert_failure(p, vd_json_array_of(&in, o, "o", &v), VD_BAD_FILE, "case-type", "an object");
    assert_int_equal(vd_json_object_of(&in, o, "o", &v), VD_OK);
    assert_int_equal(vd_json_boolean_of(&in, o, "b", &b), VD_OK);
    assert_false(b);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replaces_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abandoned_leaves_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_targets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_files_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tensors_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writer_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_stay_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_strict, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_bomb, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_print, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_members, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
