#include "core/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t vd_available_memory(void)
{
    char      text[4096];
    const int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return -1;
    text[size]       = 0;
    const char *line = strstr(text, "MemAvailable:");
    return line ? strtoll(line + strlen("MemAvailable:"), NULL, 10) * 1024 : -1;
}
