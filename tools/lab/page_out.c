/* Lab pages on their way to disk. See page_out.h. */
#include "lab/page_out.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "lab/parts.h"

#include <string.h>

enum { GZIP_WINDOW = 15 + 16, ZIP_LEVEL = 9, CHUNK = 1 << 14, PIECE = 1 << 18 };

static void page_put_text(struct page_out *page, const char *text)
{
    outfile_write(&page->file, text, strlen(text));
}

static void put_part(struct page_out *page, const struct lab_part *part)
{
    outfile_write(&page->file, part->data, part->n);
}

/* As text of an element or an attribute: markup as references, what must not be shown as '?'. */
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
        else if (code == '"')
            page_put_text(page, "&quot;");
        else if (utf8_dangerous(code) || utf8_hidden(code))
            page_put_text(page, "?");
        else
            outfile_write(&page->file, text + i, length);
    }
}

/* `name` is all of the tag before its value. */
static void put_meta(struct page_out *page, const char *name, const char *value)
{
    page_put_text(page, "<meta ");
    page_put_text(page, name);
    page_put_text(page, " content=\"");
    put_escaped(page, value);
    page_put_text(page, "\">\n");
}

/* The title, and tags of the Open Graph protocol: the card that sites show for a link to the page. */
static void put_top(struct page_out *page, const struct page_top *top)
{
    page_put_text(page, "<title>");
    put_escaped(page, top->title);
    page_put_text(page, "</title>\n");
    if (!top->about && !top->picture)
        return;
    put_meta(page, "property=\"og:type\"", "website");
    put_meta(page, "property=\"og:title\"", top->title);
    if (top->about) {
        put_meta(page, "name=\"description\"", top->about);
        put_meta(page, "property=\"og:description\"", top->about);
    }
    if (top->picture) {
        put_meta(page, "property=\"og:image\"", top->picture);
        put_meta(page, "name=\"twitter:card\"", "summary_large_image");
    }
}

int page_open(struct page_out *page, const char *path, const struct page_top *top, mgpt_error *err)
{
    *page = (struct page_out){0};
    int status = files_create(&page->file, path, FILES_PAGE, err);
    if (status < 0)
        return status;
    put_part(page, &lab_head);
    put_top(page, top);
    put_part(page, &lab_body);
    return MGPT_OK;
}

/* ---- bytes as characters (page_out.h) ---- */

/* Writes the low 13 bits as two characters, or up to 6 bits as one. */
static size_t put_digits(char *to, uint32_t bits, int n_bits)
{
    const uint32_t digits[] = {(bits & 8191) % 91, (bits & 8191) / 91};
    size_t n = n_bits > 6 ? 2 : 1;
    for (size_t i = 0; i < n; i++) {
        char c = (char)('#' + digits[i]);
        to[i] = c == '<' ? '!' : c;
    }
    return n;
}

static void put_packed(struct page_out *page, const unsigned char *data, size_t n)
{
    char out[CHUNK];
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        page->bits |= (uint32_t)data[i] << page->n_bits;
        page->n_bits += 8;
        if (page->n_bits < 13)
            continue;
        n_out += put_digits(out + n_out, page->bits, 13);
        page->bits >>= 13;
        page->n_bits -= 13;
        if (n_out == sizeof out) {
            outfile_write(&page->file, out, n_out);
            n_out = 0;
        }
    }
    outfile_write(&page->file, out, n_out);
}

static void end_packed(struct page_out *page)
{
    char out[2];
    if (page->n_bits > 0)
        outfile_write(&page->file, out, put_digits(out, page->bits, page->n_bits));
    page->bits = 0;
    page->n_bits = 0;
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
    end_packed(page);
    page_put_text(page, "</script>\n");
}

void page_put_packed(struct page_out *page, const char *id, const void *data, size_t n)
{
    open_block(page, id);
    put_packed(page, data, n);
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
        put_packed(page, out, sizeof out - page->zip.avail_out);
    } while (page->zip.avail_out == 0);
}

void page_add(struct page_out *page, const void *data, size_t n)
{
    const unsigned char *from = data;
    for (size_t each; n > 0 && !interrupted(); n -= each, from += each) {
        each = n < PIECE ? n : PIECE;
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
