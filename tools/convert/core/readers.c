/* The table of readers, and the choice among them. See readers.h.
 *
 * The choice is made by content alone: a file's name does not count. The best match wins; a format
 * without a magic number (llama2.c version 0) claims a file surely only when its size fits, too.
 */
#include "convert/core/readers.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>

#define RAW "numbers without a header"

const struct ckpt_reader ckpt_readers[] = {
    {"GGUF", 0, gguf_sniff, gguf_read},
    {".npz", TORCH_OPTIONS, npz_sniff, npz_reader_read},
    {"pickle", TORCH_OPTIONS, microgpt_pickle_sniff, microgpt_pickle_read},
    {"PyTorch", TORCH_OPTIONS, torch_reader_sniff, torch_reader_read},
    {"llm.c .bin", OPT_TOKENIZER | OPT_NO_TOKENIZER, llmc_sniff, llmc_read},
    {"llama2.c .bin", OPT_TOKENIZER | OPT_NO_TOKENIZER, llama2c_sniff, llama2c_read},
    {"safetensors", TORCH_OPTIONS, hf_safetensors_sniff, safetensors_read},
    {"Hugging Face JSON", OPT_TOKENIZER | OPT_NO_TOKENIZER | OPT_CONTEXT, hf_json_sniff,
     hf_json_read},
    {"config.json", TORCH_OPTIONS, hf_untyped_sniff, hf_untyped_read},
    {"microgpt .npy", MICROGPT_OPTIONS, npy_sniff, npy_read},
    {"microgpt-bin", MICROGPT_OPTIONS, mgpt_bin_sniff, mgpt_bin_read},
    {"microgpt-c", MICROGPT_OPTIONS, microgpt_c_sniff, microgpt_c_read},
    {RAW, MICROGPT_OPTIONS | OPT_RAW, raw_sniff, raw_read},
    {"microgpt JSON", MICROGPT_OPTIONS | OPT_TOKENIZER | OPT_NO_TOKENIZER, microgpt_json_sniff,
     microgpt_json_read},
};
const size_t ckpt_n_readers = sizeof ckpt_readers / sizeof *ckpt_readers;

int ckpt_side(struct checkpoint *c, const struct ckpt_input *in, enum ckpt_option option,
              const char *const *candidates, size_t n_candidates, struct ckpt_side *side)
{
    int found = in->side(in->user, option, candidates, n_candidates, side, c->err);
    ckpt_must(c, found);
    return found;
}

void ckpt_note_tokenizer(struct checkpoint *c, const struct ckpt_input *in, const char *name)
{
    if (!(in->options->given & OPT_TOKENIZER))
        ckpt_note(c, "inferred: the tokenizer is %s (next to the input; --tokenizer)", name);
}

void ckpt_check_options(struct checkpoint *c, const struct ckpt_input *in, const char *format,
                        unsigned apply)
{
    const struct ckpt_option_row *row = ckpt_option_row(in->options->given & ~apply);
    if (row)
        ckpt_stop_option(c, "%s does not apply to %s", row->name, format);
}

_Noreturn static void readers_unknown(struct checkpoint *c, struct span bytes)
{
    char first[40] = "";
    size_t n = 0;
    for (size_t i = 0; i < bytes.size && i < 8; i++)
        n += (size_t)snprintf(first + n, sizeof first - n, " %02x", bytes.data[i]);
    if (bytes.size == 0)
        ckpt_stop_at(c, 0, "the file is empty");
    ckpt_stop_at(
        c, 0,
        "not a checkpoint that mgpt reads (first bytes%s): GGUF, safetensors, PyTorch, pickle, "
        ".npy, .npz, JSON, llama2.c, or --raw",
        first);
}

/* The best match; what has no marks at all must be named by the user. */
static const struct ckpt_reader *readers_choose(const struct ckpt_input *in)
{
    const struct ckpt_reader *best = NULL;
    enum ckpt_match match = MATCH_NO;
    for (size_t i = 0; i < ckpt_n_readers; i++)
        if (in->options->given & OPT_RAW & ckpt_readers[i].options)
            return &ckpt_readers[i];
    for (size_t i = 0; i < ckpt_n_readers; i++) {
        enum ckpt_match m = ckpt_readers[i].sniff(in->bytes);
        if (m > match) {
            match = m;
            best = &ckpt_readers[i];
        }
    }
    return best;
}

struct read_run {
    struct checkpoint *c;
    const struct ckpt_input *in;
};

static void read_input(void *arg)
{
    struct checkpoint *c = ((struct read_run *)arg)->c;
    const struct ckpt_input *in = ((struct read_run *)arg)->in;
    const struct ckpt_reader *best = readers_choose(in);
    const char *foreign = in->options->given & OPT_RAW ? NULL : ckpt_foreign(in->bytes);
    if (foreign)
        ckpt_stop_at(c, 0, "this is %s", foreign);
    if (!best)
        readers_unknown(c, in->bytes);
    c->format = best->name;
    c->name = in->name;
    ckpt_check_options(c, in, best->name, best->options);
    best->read(c, in);
    if (c->lost_notes) /* what was inferred must be told */
        ckpt_leave(c, err_memory(c->err, "the notes", arr_len(c->notes) * sizeof *c->notes));
}

int ckpt_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct read_run run = {c, in};
    return ckpt_run(c, read_input, &run, err);
}
