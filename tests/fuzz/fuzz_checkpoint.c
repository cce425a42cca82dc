/* Fuzz target: one reader of checkpoints (FUZZ_READER, e.g. hf_safetensors_read), and every value
 * of what it accepts.
 *
 * An input is the bytes of the main file or, when it begins with "PARTS", several files: for each a
 * byte with the length of its name, the name, four bytes with its size (least first), its bytes.
 * The first is the main file, the others are the side files that the reader asks for: by name, or
 * as "--chars" or "--tokenizer" for those of the user. "options" is the command line: see
 * read_options.
 *
 * With FUZZ_LORA the part "adapter" is an adapter of the model, with "adapter_config.json" one of
 * PEFT. With FUZZ_TOKENIZER the main file is a tokenizer, which is read for a model of 512 rows.
 * With FUZZ_SUMS the checksums of its stored zip entries are put right first, or damage would get
 * no further than these.
 */
#include "base/mem.h"
#include "convert/core/lora.h"
#include "convert/core/write.h"
#include "convert/vocab/hf_tokenizer.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <zlib.h>

enum { PARTS_MOST = 6, SEEN_MOST = 1 << 20 };

struct fuzz_parts {
    struct {
        char name[64];
        struct span bytes;
    } p[PARTS_MOST];
    size_t n;
};

static void take_apart(struct fuzz_parts *parts, const uint8_t *data, size_t size)
{
    struct feed f = {data + 5, size - 5};
    for (parts->n = 0; parts->n < PARTS_MOST && f.size > 0; parts->n++) {
        size_t i, n_name = feed_byte(&f) % sizeof parts->p->name;
        for (i = 0; i < n_name; i++)
            parts->p[parts->n].name[i] = (char)feed_byte(&f);
        parts->p[parts->n].name[i] = 0;
        size_t n = feed_u32(&f);
        n = n < f.size ? n : f.size;
        parts->p[parts->n].bytes = (struct span){f.data, n};
        f.data += n;
        f.size -= n;
    }
}

static int find_part(const struct fuzz_parts *parts, const char *name, struct ckpt_side *side)
{
    for (size_t k = 1; k < parts->n; k++)
        if (strcmp(parts->p[k].name, name) == 0) {
            *side = (struct ckpt_side){name, parts->p[k].bytes};
            return 1;
        }
    return 0;
}

static int find_side(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                     struct ckpt_side *side, mgpt_error *err)
{
    const struct fuzz_parts *parts = user;
    (void)err;
#ifdef FUZZ_TOKENIZER
    if (option == OPT_TOKENIZER) {
        *side = (struct ckpt_side){"tokenizer", parts->p[0].bytes};
        return 1;
    }
#endif
    if (option && find_part(parts, ckpt_option_name(option), side))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (find_part(parts, candidates[i], side))
            return 1;
    return 0;
}

static int32_t size_from(struct feed *f, int given, int32_t least)
{
    uint32_t v = feed_u32(f) & INT32_MAX;
    return given && v > (uint32_t)least ? (int32_t)v : least;
}

static double real_from(struct feed *f, double least, double most)
{
    double v = (double)feed_float(f);
    return isnan(v) ? most : fmin(fmax(v, least), most);
}

/* The options of mgpt convert in the ranges of cmd_convert.c: four bytes say which are given, then
 * come seven numbers of four bytes, and a byte for the three that are names. */
static void read_options(struct ckpt_options *o, const struct fuzz_parts *parts)
{
    static const char *const activations[] = {"relu", "gelu_erf", "silu", "x"},
                             *const positions[] = {"half", "adjacent", "none", "x"},
                             *const raws[] = {"f32", "f64", "f16", "x"};
    struct ckpt_side side;
    *o = ckpt_no_options;
    o->raw = "f32";
    if (!find_part(parts, "options", &side))
        return;
    struct feed f = {side.bytes.data, side.bytes.size};
    o->given = feed_u32(&f) & ((OPT_HEAD_LAST << 1) - 1);
    o->n_head = size_from(&f, o->given & OPT_HEADS, 1);
    o->n_vocab = size_from(&f, o->given & OPT_VOCAB_SIZE, 1);
    o->n_embd = size_from(&f, o->given & OPT_EMBD, 1);
    o->n_layer = size_from(&f, o->given & OPT_LAYERS, 0) % 1025;
    o->n_ctx = size_from(&f, o->given & OPT_CONTEXT, 1);
    o->bos = size_from(&f, o->given & OPT_BOS, 0);
    o->window = size_from(&f, o->given & OPT_WINDOW, 1);
    uint8_t names = feed_byte(&f);
    o->activation = activations[names & 3];
    o->positions = positions[names >> 2 & 3];
    o->raw = raws[names >> 4 & 3];
    o->eps = real_from(&f, 0, 1);
    o->rope_base = real_from(&f, 1e-3, 1e12);
    o->softcap = real_from(&f, 0, 1e6);
    o->qk_scale = real_from(&f, 1e-3, 1e3);
}

#ifdef FUZZ_TOKENIZER
static void fuzz_read(struct checkpoint *c, const struct ckpt_input *in)
{
    hf_tokenizer_read(c, in, 512);
}
#elif defined FUZZ_LORA
static int read_main(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct lora_adapter adapter = {.path = "adapter", .scale = 0.5};
    struct ckpt_side side;
    int status = ckpt_read(c, in, err);
    if (status < 0)
        return status;
    if (find_part(in->user, "adapter_config.json", &side))
        adapter.config = side.bytes;
    if (find_part(in->user, "adapter", &side))
        adapter.weights = side.bytes;
    return lora_apply(c, &adapter, err);
}
#else
#define fuzz_read FUZZ_READER
#endif

#ifndef FUZZ_LORA
struct reader_run {
    struct checkpoint *c;
    const struct ckpt_input *in;
};

/* Readers leave by a jump: see ckpt_run. */
static void run_reader(void *arg)
{
    const struct reader_run *r = arg;
    fuzz_read(r->c, r->in);
}

static int read_main(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct reader_run run = {c, in};
    return ckpt_run(c, run_reader, &run, err);
}
#endif

static void read_all(const struct checkpoint *c)
{
    float row[256];
    struct ckpt_written w;
    for (size_t i = 0; i < arr_len(c->tensors) && c->failed.status >= 0; i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        size_t block = t->type ? t->type->block : 1;
        for (uint64_t at = 0; at < t->n_values && at < 65536 && c->failed.status >= 0;) {
            uint64_t left = t->n_values - at;
            size_t n = left < 256 ? (size_t)left : 256 / block * block;
            ckpt_values(t, at, n, row);
            at += n;
        }
    }
    ckpt_measure(c, NULL, &w);
}

/* As floats, so that a NaN is one value: whose sign it has is the compiler's choice. */
static void see_file(const uint8_t *bytes, size_t size)
{
    size_t n = size / sizeof(float);
    fuzz_saw_floats((const float *)(const void *)bytes, n);
    fuzz_saw(bytes + n * sizeof(float), size % sizeof(float));
}

/* The file that it becomes, and the notes. */
static void see_all(struct checkpoint *c)
{
    struct ckpt_memory file = {0};
    struct ckpt_written w;
    mgpt_error err = {0};
    if (!c->hp.arch) /* a tokenizer alone */
        c->hp.arch = "llama";
    ckpt_measure(c, NULL, &w);
    if (w.n_bytes < SEEN_MOST && ckpt_write_memory(c, NULL, &file, &err) == MGPT_OK)
        see_file(file.bytes, file.size);
    else
        fuzz_saw_error(&err);
    free(file.bytes);
    for (size_t i = 0; i < arr_len(c->notes); i++)
        fuzz_saw(c->notes[i], strlen(c->notes[i]));
}

#ifdef FUZZ_SUMS
static size_t number_at(const uint8_t *p, int width)
{
    size_t v = 0;
    for (int i = width - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

/* `p` is an entry of the directory, 46 bytes or more. */
static void put_sum_right(uint8_t *data, size_t size, uint8_t *p)
{
    size_t n = number_at(p + 20, 4), at = number_at(p + 42, 4);
    if (number_at(p + 10, 2) != 0 || size < 30 || at > size - 30)
        return;
    uint8_t *local = data + at;
    size_t begin = at + 30 + number_at(local + 26, 2) + number_at(local + 28, 2);
    if (begin > size || n > size - begin)
        return;
    uint32_t sum = (uint32_t)crc32_z(0, data + begin, n);
    for (int i = 0; i < 4; i++)
        p[16 + i] = local[14 + i] = (uint8_t)(sum >> (8 * i));
}

/* A copy that lives until the next call. */
static struct span with_sums(struct span file)
{
    static uint8_t *copy;
    free(copy);
    copy = malloc(file.size ? file.size : 1);
    MUST(copy);
    if (file.size)
        memcpy(copy, file.data, file.size);
    for (size_t i = 0; file.size >= 46 && i <= file.size - 46; i++)
        if (copy[i] == 'P' && memcmp(copy + i, "PK\1\2", 4) == 0) /* libFuzzer's memcmp is slow */
            put_sum_right(copy, file.size, copy + i);
    return (struct span){copy, file.size};
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ckpt_options options;
    struct fuzz_parts parts = {.p[0].bytes = {data, size}, .n = 1};
    struct checkpoint c;
    mgpt_error err = {0};
    if (size >= 5 && memcmp(data, "PARTS", 5) == 0)
        take_apart(&parts, data, size);
    read_options(&options, &parts);
#ifdef FUZZ_SUMS
    parts.p[0].bytes = with_sums(parts.p[0].bytes);
#endif
    struct ckpt_input in = {parts.p[0].bytes, "fuzz", &options, find_side, &parts, NULL, NULL};
    ckpt_init(&c);
    if (read_main(&c, &in, &err) == MGPT_OK) {
        read_all(&c);
        see_all(&c);
    } else
        MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
    fuzz_saw_error(&err);
    ckpt_free(&c);
    return 0;
}
