/* The table of readers, and the choice among them. See readers.h.
 *
 * The choice is made by content alone: a file's name says nothing. The best match wins; a format
 * without a magic number (llama2.c version 0) claims a file surely only when its size fits, too.
 */
#include "readers.h"

#include "error.h"

#include <stdio.h>

#define MICROGPT_OPTIONS                                                                           \
    (OPT_HEADS | OPT_VOCAB_SIZE | OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_ACTIVATION | OPT_EPS | \
     OPT_BOS | OPT_NO_EMBEDDING_NORM | OPT_FINAL_NORM | OPT_CHARS)

const struct ckpt_reader ckpt_readers[] = {
    {"GGUF", 0, gguf_sniff, gguf_read},
    {"llama2.c .bin", OPT_TOKENIZER | OPT_NO_TOKENIZER, llama2c_sniff, llama2c_read},
    {"microgpt JSON", MICROGPT_OPTIONS, microgpt_json_sniff, microgpt_json_read},
};
const size_t ckpt_n_readers = sizeof ckpt_readers / sizeof *ckpt_readers;

static const struct {
    enum ckpt_option option;
    const char *name;
} option_names[] = {
    {OPT_HEADS, "--heads"},
    {OPT_VOCAB_SIZE, "--vocab-size"},
    {OPT_EMBD, "--embd"},
    {OPT_LAYERS, "--layers"},
    {OPT_CONTEXT, "--context"},
    {OPT_ACTIVATION, "--activation"},
    {OPT_EPS, "--eps"},
    {OPT_BOS, "--bos"},
    {OPT_NO_EMBEDDING_NORM, "--no-embedding-norm"},
    {OPT_FINAL_NORM, "--final-norm"},
    {OPT_CHARS, "--chars"},
    {OPT_TOKENIZER, "--tokenizer"},
    {OPT_NO_TOKENIZER, "--no-tokenizer"},
};

const char *ckpt_option_name(enum ckpt_option option)
{
    for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++)
        if (option_names[i].option == option)
            return option_names[i].name;
    return "?";
}

/* An option that changes nothing would be a silent mistake. */
static int check_options(const struct ckpt_reader *r, const struct ckpt_options *o, mgpt_error *err)
{
    unsigned idle = o->given & ~r->options;
    for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++)
        if (idle & option_names[i].option)
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%s does not apply to %s",
                           option_names[i].name, r->name);
    return MGPT_OK;
}

static int unknown(struct span bytes, mgpt_error *err)
{
    char first[40] = "", names[80] = "";
    size_t n = 0, m = 0;
    for (size_t i = 0; i < bytes.size && i < 8; i++)
        n += (size_t)snprintf(first + n, sizeof first - n, " %02x", bytes.data[i]);
    for (size_t i = 0; i < ckpt_n_readers && m < sizeof names; i++)
        m += (size_t)snprintf(names + m, sizeof names - m, "%s%s", i ? ", " : "",
                              ckpt_readers[i].name);
    if (bytes.size == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "the file is empty");
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "not a checkpoint that mgpt can read (first bytes%s); it reads: %s", first,
                   names);
}

int ckpt_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    const struct ckpt_reader *best = NULL;
    enum ckpt_match match = MATCH_NO;
    for (size_t i = 0; i < ckpt_n_readers; i++) {
        enum ckpt_match m = ckpt_readers[i].sniff(in->bytes);
        if (m > match) {
            match = m;
            best = &ckpt_readers[i];
        }
    }
    if (!best)
        return unknown(in->bytes, err);
    c->format = best->name;
    c->name = in->name;
    int status = check_options(best, in->options, err);
    return status < 0 ? status : best->read(c, in, err);
}
