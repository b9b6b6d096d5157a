#include "gate/html_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void append(vd_html *h, const char *data, int64_t size)
{
    if (!h->failed && h->size + size + 1 > h->room) {
        const int64_t room = vd_max(2 * h->room, h->size + size + 4096);
        char         *more = vd_realloc(h->ctx, h->data, h->size, room, "a report");
        if (more)
            h->data = more, h->room = room;
        else
            h->failed = true;
    }
    if (h->failed)
        return;
    memcpy(h->data + h->size, data, (size_t)size);
    h->size += size;
    h->data[h->size] = 0;
}

void vd_html_raw(vd_html *h, const char *markup) { append(h, markup, (int64_t)strlen(markup)); }

/* Length of the UTF-8 sequence at s, or 0 where there is none. */
static int sequence_length(const unsigned char *s)
{
    const int size = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < size; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if (size == 3 && ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)))
        return 0;
    if (size == 4 && ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)))
        return 0;
    return size;
}

void vd_html_add(vd_html *h, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s;) {
        const int size = sequence_length(s);
        if (size == 0 || *s < 32 || *s == 127) {
            vd_html_raw(h, "\xEF\xBF\xBD");
            s++;
            continue;
        }
        switch (*s) {
        case '&': vd_html_raw(h, "&amp;"); break;
        case '<': vd_html_raw(h, "&lt;"); break;
        case '>': vd_html_raw(h, "&gt;"); break;
        case '"': vd_html_raw(h, "&quot;"); break;
        case '\'': vd_html_raw(h, "&#39;"); break;
        default: append(h, (const char *)s, size);
        }
        s += size;
    }
}

void vd_html_format(vd_html *h, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size > 0)
        append(h, text, vd_min(size, (int64_t)sizeof text - 1));
}

void vd_html_number(vd_html *h, double x)
{
    if (!isfinite(x))
        vd_html_raw(h, "\xE2\x88\x9E");
    else if (x == 0 || (fabs(x) >= 0.01 && fabs(x) < 1000))
        vd_html_format(h, "%.3g", x);
    else
        vd_html_format(h, "%.2e", x);
}
