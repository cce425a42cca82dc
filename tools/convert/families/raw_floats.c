/* Readers: microgpt as bare numbers, with a small header or none.
 *
 *     --raw f32 or f64      nothing but numbers, in microgpt's order (microgpt_params.c)
 *     microgpt-bin          "MGPT", 7 u32: version 1, n_layer, n_embd, block_size, n_head, vocab_size,
 *                           number of characters; the characters; zeros to a multiple of 8; f64 numbers.
 *                           Written by tools/train_export.py of github.com/AadiSrivastava05/Llama-port
 *     microgpt-c model      u64 vocab_size; numbers.   model_save, checkpoint_save of
 *     microgpt-c checkpoint i32 step, u64 vocab_size; numbers; twice as many of Adam's: skipped
 *                           github.com/enjector/microgpt-c, which has the other sizes compiled in
 *
 * The numbers must fill the file exactly. Without names and shapes nothing else could tell a right
 * guess from a wrong one, so sizes are guessed only as the published program's.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "convert/families/tree.h"

#include <string.h>

#define MAX_VOCAB (1u << 20) /* of the formats without a magic number */

/* ---- no header ------------------------------------------------------------------------------- */

enum ckpt_match raw_sniff(struct span bytes)
{
    (void)bytes;
    return MATCH_NO; /* --raw chooses it */
}

void raw_read(struct checkpoint *c, const struct ckpt_input *in)
{
    static const struct {
        const char *name;
        enum state_type type;
    } types[] = {{"f32", STATE_F32}, {"f64", STATE_F64}, {"f16", STATE_F16}};
    enum state_type type = STATE_OTHER;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(in->options->raw, types[i].name) == 0)
            type = types[i].type;
    if (type == STATE_OTHER)
        ckpt_stop_option(c, "--raw: expected f32, f64 or f16, found '%.*s'",
                         CKPT_CLIP(in->options->raw, strlen(in->options->raw)));
    if (in->bytes.size % state_type_bytes(type))
        ckpt_stop(c, "%zu bytes are not a whole number of %s", in->bytes.size, in->options->raw);
    c->format = "microgpt numbers without a header";
    struct state_tensor all =
        mg_flat(in->bytes.data, 0, in->bytes.size / state_type_bytes(type), type);
    struct mg_parts *m = mg_parts_new(c, in);
    mg_add_params(m, &all);
    mg_parts_build(m);
}

/* ---- microgpt-bin ---------------------------------------------------------------------------- */

enum ckpt_match mgpt_bin_sniff(struct span bytes)
{
    return bytes.size >= 8 && memcmp(bytes.data, "MGPT\1\0\0\0", 8) == 0 ? MATCH_YES : MATCH_NO;
}

static void read_mgpt_bin(struct mg_parts *m, struct span bytes)
{
    static const enum mg_size sizes[] = {MG_LAYERS, MG_EMBD, MG_CONTEXT, MG_HEADS, MG_VOCAB};
    struct cursor in = cursor_over(bytes.data, bytes.size);
    cursor_take(&in, 8);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        mg_take(m, mg_size_name(sizes[i]),
                (struct mg_value){.kind = MG_NUMBER, .number = cursor_u32(&in)});
    uint32_t n_chars = cursor_u32(&in);
    const uint8_t *chars = cursor_take(&in, n_chars);
    cursor_take(&in, (8 - in.pos % 8) % 8);
    if (in.failed)
        ckpt_stop_at(m->c, in.where, "microgpt-bin: the file ends in its header");
    if (cursor_left(&in) % 8)
        ckpt_stop_at(m->c, in.pos, "microgpt-bin: %zu bytes of data are not a whole number of f64",
                     cursor_left(&in));
    struct state_tensor all = mg_flat(bytes.data + in.pos, 0, cursor_left(&in) / 8, STATE_F64);
    const struct tree text = {
        .kind = TREE_TEXT, .text = {(const char *)chars, n_chars}, .what = "other bytes"};
    tree_vocabulary(m, "microgpt-bin: the vocabulary", text);
    mg_add_params(m, &all);
}

void mgpt_bin_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct mg_parts *m = mg_parts_new(c, in);
    c->format = "microgpt-bin version 1";
    read_mgpt_bin(m, in->bytes);
    mg_parts_build(m);
}

/* ---- microgpt-c ------------------------------------------------------------------------------ */

/* Bytes before the numbers, 0 when it is neither; *vocab is the vocabulary. The high half of a u64
 * that holds a small number is zero, which no other format has there. */
static size_t microgpt_c_header(struct span bytes, uint64_t *vocab)
{
    static const size_t at[] = {0, 4};
    for (size_t i = 0; i < 2; i++) {
        struct cursor in = cursor_over(bytes.data, bytes.size);
        cursor_take(&in, at[i]);
        *vocab = cursor_u64(&in);
        int is_safetensors = i == 0 && bytes.size > 8 && bytes.data[8] == '{';
        if (!in.failed && *vocab >= 2 && *vocab <= MAX_VOCAB && cursor_left(&in) > *vocab &&
            !is_safetensors)
            return in.pos;
    }
    return 0;
}

enum ckpt_match microgpt_c_sniff(struct span bytes)
{
    uint64_t vocab;
    return microgpt_c_header(bytes, &vocab) ? MATCH_YES : MATCH_NO;
}

/* float64 unless the numbers fit only as float32 (its MICROGPT_USE_FLOAT). */
static struct state_tensor choose_type(struct mg_parts *m, const uint8_t *data, size_t n_bytes)
{
    static const enum state_type types[] = {STATE_F64, STATE_F32};
    for (size_t i = 0; i < 2; i++) {
        size_t each = state_type_bytes(types[i]);
        if (n_bytes % each || !mg_params_fit(m, n_bytes / each))
            continue;
        ckpt_note(m->c, "inferred: the numbers are %s", i ? "float32" : "float64");
        return mg_flat(data, 0, n_bytes / each, types[i]);
    }
    ckpt_stop(m->c,
              "microgpt-c: %zu bytes of numbers for %lld tokens: give --embd --layers "
              "--context (they are not in the file)",
              n_bytes, (long long)m->facts.sizes[MG_VOCAB]);
}

void microgpt_c_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct mg_parts *m = mg_parts_new(c, in);
    uint64_t vocab;
    size_t header = microgpt_c_header(in->bytes, &vocab), n_bytes = in->bytes.size - header;
    c->format = header == 8 ? "microgpt-c model" : "microgpt-c checkpoint";
    m->facts.sizes[MG_VOCAB] = (int64_t)vocab;
    /* The file does not say its context. 16 is what was published; all sizes must then fit. */
    if (!(in->options->given & (OPT_CONTEXT | OPT_EMBD | OPT_LAYERS)))
        m->facts.sizes[MG_CONTEXT] = 16;
    if (header == 12 && n_bytes % 3)
        ckpt_stop(c, "microgpt-c: %zu bytes are not weights and two states of Adam", n_bytes);
    struct state_tensor all =
        choose_type(m, in->bytes.data + header, header == 12 ? n_bytes / 3 : n_bytes);
    mg_add_params(m, &all);
    mg_parts_build(m);
}
