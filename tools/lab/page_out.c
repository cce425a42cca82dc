/* Lab pages on their way to disk. See page_out.h. */
#include "lab/page_out.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/files.h"
#include "lab/parts.h"

#include <string.h>

enum { GZIP_WINDOW = 15 + 16, ZIP_LEVEL = 9, CHUNK = 3 << 14 };

static void page_put_text(struct page_out *page, const char *text)
{
    outfile_write(&page->file, text, strlen(text));
}

static void put_part(struct page_out *page, const struct lab_part *part)
{
    outfile_write(&page->file, part->data, part->n);
}

/* As text of an element: markup as references, what must not be shown as '?'. */
static void put_escaped(struct page_out *page, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(text + i, n - i, &code);
        if (code == '<')
            page_put_text(page, "&lt;");
        else if (code == '&')
            page_put_text(page, "&amp;");
        else if (utf8_dangerous(code))
            page_put_text(page, "?");
        else
            outfile_write(&page->file, text + i, length);
    }
}

int page_open(struct page_out *page, const char *path, const char *title, mgpt_error *err)
{
    *page = (struct page_out){0};
    int status = files_create(&page->file, path, FILES_PAGE, err);
    if (status < 0)
        return status;
    put_part(page, &lab_head);
    put_escaped(page, title);
    put_part(page, &lab_body);
    return MGPT_OK;
}

/* ---- base64 ---- */

/* One to three bytes as four digits. */
static void put_digits(char to[4], const unsigned char *from, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t word = (uint32_t)from[0] << 16;
    if (n > 1)
        word |= (uint32_t)from[1] << 8;
    if (n > 2)
        word |= from[2];
    to[0] = digits[word >> 18];
    to[1] = digits[word >> 12 & 63];
    to[2] = n > 1 ? digits[word >> 6 & 63] : '=';
    to[3] = n > 2 ? digits[word & 63] : '=';
}

static void put_base64(struct page_out *page, const unsigned char *data, size_t n)
{
    char out[CHUNK / 3 * 4];
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        page->rest[page->n_rest++] = data[i];
        if (page->n_rest < 3)
            continue;
        put_digits(out + n_out, page->rest, 3);
        page->n_rest = 0;
        n_out += 4;
        if (n_out == sizeof out) {
            outfile_write(&page->file, out, n_out);
            n_out = 0;
        }
    }
    outfile_write(&page->file, out, n_out);
}

static void end_base64(struct page_out *page)
{
    char out[4];
    if (page->n_rest > 0) {
        put_digits(out, page->rest, page->n_rest);
        outfile_write(&page->file, out, sizeof out);
    }
    page->n_rest = 0;
}

/* ---- blocks ---- */

static void open_block(struct page_out *page, const char *id)
{
    page_put_text(page, "<script type=\"application/octet-stream\" id=\"");
    page_put_text(page, id);
    page_put_text(page, "\">");
}

static void close_block(struct page_out *page)
{
    end_base64(page);
    page_put_text(page, "</script>\n");
}

void page_put_gzip(struct page_out *page, const char *id, const void *data, size_t n)
{
    open_block(page, id);
    put_base64(page, data, n);
    close_block(page);
}

int page_begin(struct page_out *page, const char *id, mgpt_error *err)
{
    page->zip = (z_stream){0};
    if (deflateInit2(&page->zip, ZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_memory(err, "the compressor", 1 << 18);
    page->zipping = 1;
    open_block(page, id);
    return MGPT_OK;
}

/* Runs the compressor until it has taken everything and, at the end, given everything. */
static void deflate_all(struct page_out *page, int flush)
{
    unsigned char out[CHUNK];
    do {
        page->zip.next_out = out;
        page->zip.avail_out = sizeof out;
        deflate(&page->zip, flush);
        put_base64(page, out, sizeof out - page->zip.avail_out);
    } while (page->zip.avail_out == 0);
}

void page_add(struct page_out *page, const void *data, size_t n)
{
    const unsigned char *from = data;
    for (size_t each; n > 0; n -= each, from += each) {
        each = n < (size_t)1 << 30 ? n : (size_t)1 << 30; /* zlib counts with 32 bits */
        page->zip.next_in = (unsigned char *)(uintptr_t)from;
        page->zip.avail_in = (unsigned)each;
        deflate_all(page, Z_NO_FLUSH);
    }
}

void page_end(struct page_out *page)
{
    page->zip.avail_in = 0;
    deflate_all(page, Z_FINISH);
    deflateEnd(&page->zip);
    page->zipping = 0;
    close_block(page);
}

int page_commit(struct page_out *page, uint64_t *n_bytes, mgpt_error *err)
{
    put_part(page, &lab_tail);
    *n_bytes = page->file.offset;
    return outfile_commit(&page->file, err);
}

void page_discard(struct page_out *page)
{
    if (page->zipping)
        deflateEnd(&page->zip);
    page->zipping = 0;
    outfile_discard(&page->file);
}
