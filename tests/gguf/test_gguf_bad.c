/* What the GGUF reader refuses (refused.txt: tiny files, each with the error line and the byte it
 * names), and what the writer refuses, leaving the target file as it was. */
#include "support/gguf_bytes.h"
#include "support/place.h"
#include "support/unit.h"

static void refused_bytes(const void *bytes, size_t n, uint64_t offset, const char *text)
{
    uint8_t *exact =
        malloc(n ? n : 1); /* of this very size: a sanitizer sees a read past its end */
    struct gguf g;
    mgpt_error err = {0};
    memcpy(exact, bytes, n);
    assert_int_equal(gguf_parse(&g, exact, n, &err), MGPT_EFILE);
    assert_int_equal(err.status, MGPT_EFILE);
    assert_string_equal(err.text, text);
    assert_int_equal(err.offset, offset);
    assert_int_equal(gguf_parse(&g, exact, n, NULL), MGPT_EFILE);
    assert_true(!g.kv && !g.tensors && !g.names && !g.kv_sorted && !g.tensors_sorted);
    free(exact);
}

/* ---- refused.txt ---- */

/* The arguments of a word; numbers are 0 where the argument is none. */
struct word {
    char name[128];
    size_t n_name;
    uint64_t numbers[3];
    uint64_t dims[8];
    uint32_t n_dims;
};

/* A file under construction: bytes, and zeros after them. */
struct refused_file {
    struct gguf_image b;
    size_t zeros;
};

/* The text up to ':' with its \xHH; returns where it ended. */
static const char *take_name(const char *p, struct word *w)
{
    for (w->n_name = 0; *p && *p != ':'; w->n_name++) {
        unsigned byte;
        if (sscanf(p, "\\x%2X", &byte) == 1) {
            w->name[w->n_name] = (char)byte;
            p += 4;
        } else {
            w->name[w->n_name] = *p++;
        }
    }
    w->name[w->n_name] = 0;
    return p + (*p == ':');
}

static const char *take_dims(const char *p, struct word *w)
{
    char *end;
    for (w->n_dims = 0; w->n_dims < 8; p = end + 1) {
        w->dims[w->n_dims++] = strtoull(p, &end, 10);
        if (*end != 'x')
            return end + (*end == ':');
    }
    return p;
}

static void take_numbers(const char *p, struct word *w)
{
    for (size_t i = 0; i < 3; i++) {
        char *end;
        w->numbers[i] = strtoull(p, &end, 10);
        p = end + (*end == ':');
    }
}

static void put_one(struct gguf_image *b, const struct word *w)
{
    put_header(b, 1, 0);
    put_info(b, "t", w->n_dims, w->dims, (uint32_t)w->numbers[0], w->numbers[1]);
    put_padding(b, 32, 0);
    put_raw(b, (const uint8_t[64]){0}, 64);
}

/* `is`: what the word is called. */
static void put_named(struct gguf_image *b, const char *is, const struct word *w)
{
    const uint64_t *n = w->numbers;
    if (strcmp(is, "text") == 0)
        put_text(b, w->name);
    else if (strcmp(is, "raw") == 0)
        put_raw(b, w->name, w->n_name);
    else if (strcmp(is, "key") == 0)
        put_key(b, w->name, (uint32_t)n[0]);
    else if (strcmp(is, "array") == 0)
        put_array(b, w->name, (uint32_t)n[0], n[1]);
    else if (strcmp(is, "kv") == 0)
        put_kv_u32(b, w->name, (uint32_t)n[0]);
    else
        put_info(b, w->name, w->n_dims, w->dims, (uint32_t)n[0], n[1]);
}

static void put_count_words(struct refused_file *f, const char *is, const uint64_t *n)
{
    if (is[0] == 'u')
        put_uint(&f->b, n[0], (unsigned)atoi(is + 1) / 8);
    else if (strcmp(is, "header") == 0)
        put_header(&f->b, n[0], n[1]);
    else if (strcmp(is, "zeros") == 0)
        f->zeros = n[0];
    else if (strcmp(is, "byte") == 0)
        f->b.p[n[0]] = (uint8_t)n[1];
    else if (strcmp(is, "cut") == 0)
        f->b.n = n[0];
    else
        fail_msg("no word '%s'", is);
}

static void put_word(struct refused_file *f, char *text)
{
    struct word w = {.n_dims = 0};
    const char *p = text + strcspn(text, ":") + 1;
    text[p - 1 - text] = 0;
    int one = strcmp(text, "one") == 0, info = strcmp(text, "info") == 0;
    int named = info || strstr("text raw key array kv", text) != NULL;
    if (named)
        p = take_name(p, &w);
    if (one || info)
        p = take_dims(p, &w);
    take_numbers(p, &w);
    if (one)
        put_one(&f->b, &w);
    else if (named)
        put_named(&f->b, text, &w);
    else
        put_count_words(f, text, w.numbers);
}

/* FILE | BYTE | LINE */
static void check_refused_file(char *row, void *user)
{
    (void)user;
    struct refused_file f = {.zeros = 0};
    char *offset = strstr(row, " | ") + 3, *line = strstr(offset, " | ") + 3;
    offset[-3] = line[-3] = 0;
    for (char *word = strtok(row, " "); word; word = strtok(NULL, " "))
        put_word(&f, word);
    uint8_t *bytes = calloc(1, f.b.n + f.zeros + 1);
    assert_non_null(bytes);
    memcpy(bytes, f.b.p, f.b.n);
    refused_bytes(bytes, f.b.n + f.zeros, strtoull(offset, NULL, 10), line);
    free(bytes);
}

TEST(refused_files)
{
    assert_int_equal(unit_rows("tests/gguf/refused.txt", check_refused_file, NULL), 69);
}

/* ---- the writer ---- */

static const uint64_t four[] = {4};
static struct gguf_writer writer;

static int make_target(void **state)
{
    int status = place_make(state);
    put_file(place.path, "old");
    return status;
}

static struct gguf_writer *begin_target(void)
{
    assert_int_equal(gguf_create(&writer, place.path, NULL), MGPT_OK);
    return &writer;
}

/* The commit fails with this line and leaves the old file as it was. */
static void target_fails(const char *text)
{
    mgpt_error err = {0};
    assert_int_equal(gguf_commit(&writer, &err), MGPT_EARG);
    assert_string_equal(err.text, text);
    assert_true(err.offset == MGPT_NO_OFFSET);
    gguf_discard(&writer); /* allowed after the end */
    assert_file(place.path, "old");
}

TEST_WITH(writer_refuses_header, make_target, place_remove)
{
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    struct gguf_writer *w = begin_target();
    gguf_put_u32(w, "twin", 1);
    gguf_put_u32(w, "twin", 2);
    target_fails("key twin: occurs twice");
    w = begin_target();
    gguf_put_u32(w, "general.alignment", 32);
    target_fails("key general.alignment: occurs twice");
    w = begin_target();
    gguf_put_tensor(w, "a\tb", f32, 1, four);
    gguf_data(w, "ignored", 7);
    target_fails("tensor a?b: control character in the name");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 2, (const uint64_t[]){4, 0});
    gguf_put_tensor(w, "second failure", NULL, 1, four);
    target_fails("tensor t: its type or shape cannot be stored, or it comes after data");
    w = begin_target();
    gguf_put_tensor(w, "t", NULL, 1, four);
    target_fails("tensor t: its type or shape cannot be stored, or it comes after data");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 5, (const uint64_t[]){1, 1, 1, 1, 2});
    target_fails("tensor t: its type or shape cannot be stored, or it comes after data");
}

TEST_WITH(writer_refuses_data, make_target, place_remove)
{
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    struct gguf_writer *w = begin_target();
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "fifteen bytes..", 15);
    target_fails("tensor 1 of 1 got 15 of its 16 bytes");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 1, four);
    target_fails("tensor 1 of 1 got 0 of its 16 bytes");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "seventeen bytes..", 17);
    target_fails("1 bytes of data after the last of 1 tensors");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "x", 1);
    gguf_put_u32(w, "late", 1);
    target_fails("key late: put after tensor data");
    w = begin_target();
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "x", 1);
    gguf_put_tensor(w, "late", f32, 1, four);
    target_fails("tensor late: its type or shape cannot be stored, or it comes after data");
    w = begin_target();
    gguf_discard(w);
    assert_int_equal(gguf_create(w, "/nowhere/at/all", NULL), MGPT_EIO);
    gguf_discard(w);
}
