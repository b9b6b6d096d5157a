#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_log(void *user, vd_log_level level, const char *text)
{
    (void)user, (void)level;
    FUZZ_CHECK(strlen(text) < 4096);
}

vd_context *fuzz_open(void)
{
    vd_context *ctx;
    vd_options  options;
    vd_options_init(&options);
    options.threads = 1;
    options.log     = read_log;
    FUZZ_CHECK(vd_open(&options, &ctx) == VD_OK);
    return ctx;
}

void fuzz_close(vd_context *ctx, vd_status status)
{
    const char *text = vd_error_text(ctx);
    FUZZ_CHECK((status == VD_OK) == (*vd_error_reason(ctx) == 0));
    FUZZ_CHECK((status == VD_OK) == (*text == 0));
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text >= 32); /* a name with a line end would forge a second message */
    vd_close(ctx);
}

size_t fuzz_mutate_tensors(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t header = 0;
    for (int i = 7; size >= 8 && i >= 0; i--)
        header = header << 8 | data[i];
    if (seed % 8 == 0 || size < 8 || header > size - 8)
        return LLVMFuzzerMutate(data, size, room);
    /* The header is mutated at the end of the buffer, so that it can grow; the tensors' bytes follow it again. */
    static uint8_t tail[1 << 20];
    const size_t   rest = size - 8 - header < sizeof tail ? size - 8 - header : sizeof tail;
    if (room < 8 + rest + 1)
        return LLVMFuzzerMutate(data, size, room);
    memcpy(tail, data + 8 + header, rest);
    header = LLVMFuzzerMutate(data + 8, header, room - 8 - rest);
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)(header >> (8 * i));
    memcpy(data + 8 + header, tail, rest);
    return 8 + header + rest;
}

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        fputs("the scratch folder could not be removed\n", stderr);
}

const char *fuzz_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/verdit-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(folder) != NULL);
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_write(const uint8_t *data, size_t size, const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
    return path;
}
