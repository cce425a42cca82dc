/* Writing a lab page: one HTML file, there whole or not at all.
 *
 * The template's parts with, between them, the title and blocks of data:
 *     <script type="application/octet-stream" id="...">characters</script>
 * A block is gzip, or LZMA (an .lzma file) where embed.py has packed it, which is 15 % smaller for the engine and the scripts.
 * Its bits are taken 13 at a time from the lowest bit of the first byte on: a number n is two
 * characters, n % 91 and n / 91, and a last one of 6 bits or fewer is one. A digit d is the character
 * '#' + d, and '!' for '<', so nothing in a block can end its element or be taken for markup. This takes
 * 8 % less than base64. boot.js reads it. Failures of writing are sticky
 * (outfile.h) and reported by page_commit.
 */
#ifndef MGPT_LAB_PAGE_OUT_H
#define MGPT_LAB_PAGE_OUT_H

#include "base/outfile.h"

#include <zlib.h>

struct page_out {
    struct outfile file;
    z_stream zip; /* of the block that is open */
    int zipping;
    uint32_t bits; /* the n_bits < 13 that have made no characters yet */
    int n_bits;
};

/* What sites and search engines read of a page: any bytes. `about` and `picture`, an address, may be NULL. */
struct page_top {
    const char *title, *about, *picture;
};

/* Opens the file and writes everything up to the first block. */
int page_open(struct page_out *page, const char *path, const struct page_top *top, mgpt_error *err);

/* A block that is packed already. */
void page_put_packed(struct page_out *page, const char *id, const void *data, size_t n);

/* A block in parts. MGPT_EMEM: the compressor found no memory. */
int page_begin(struct page_out *page, const char *id, mgpt_error *err);
void page_add(struct page_out *page, const void *data, size_t n);
void page_end(struct page_out *page);

/* Ends the page; its size in *n_bytes. */
int page_commit(struct page_out *page, uint64_t *n_bytes, mgpt_error *err);

/* Throws away what was written; allowed on a zeroed or committed struct. */
void page_discard(struct page_out *page);

#endif
