/* tokenizer.json: decoders, as the lists of src/tokenizer/tok_decode.c. A text is decoded token by
 * token, so what looks at several tokens is refused by name. */
#include "base/mem.h"
#include "convert/vocab/hf_steps_impl.h"

#include <string.h>

static void add_decoder_text(struct steps_writer *w, const struct jval *part, const char *from,
                             const char *to)
{
    if (!*from || strlen(from) > 60 || strlen(to) > 60)
        steps_refuse(w, part, "its text is empty or too long");
    steps_words(w, "replace", from, to);
}

static void add_metaspace_decoder(struct steps_writer *w, const struct jval *part)
{
    w->t->c->vocab.drops_space |= steps_scheme(part) != NULL;
    add_decoder_text(w, part, steps_string(part, "replacement"), " ");
}

static void add_bpe_decoder(struct steps_writer *w, const struct jval *part)
{
    add_decoder_text(w, part, steps_string(part, "suffix"), " ");
}

static void add_wordpiece_decoder(struct steps_writer *w, const struct jval *part)
{
    const char *prefix = steps_string(part, "prefix");
    if (!*prefix || strlen(prefix) > 60)
        steps_refuse(w, part, "its prefix is empty or too long");
    w->t->c->vocab.drops_space = 1;
    steps_words(w, "unprefix", prefix, NULL);
    if (hf_tok_flag(part, "cleanup", 1))
        steps_word(w, "cleanup");
}

static void add_replace_decoder(struct steps_writer *w, const struct jval *part)
{
    const char *from = steps_string(jval_get(part, "pattern"), "String");
    add_decoder_text(w, part, from, steps_string(part, "content"));
}

/* Only a space at the start can be stripped, because a text is decoded token by token. */
static void add_strip_decoder(struct steps_writer *w, const struct jval *part)
{
    int64_t start = jval_whole(jval_get(part, "start"));
    int64_t stop = jval_whole(jval_get(part, "stop"));
    if (stop != 0 || start > 1 || (start && strcmp(steps_string(part, "content"), " ") != 0))
        steps_refuse(w, part, "it strips more than one space in front");
    w->t->c->vocab.drops_space |= start == 1;
}

static void add_nothing(struct steps_writer *w, const struct jval *part)
{
    (void)w, (void)part;
}

static const struct component_row decoder_rows[] = {{"ByteLevel", steps_bytes},
                                                    {"Metaspace", add_metaspace_decoder},
                                                    {"BPEDecoder", add_bpe_decoder},
                                                    {"WordPiece", add_wordpiece_decoder},
                                                    {"Replace", add_replace_decoder},
                                                    {"Strip", add_strip_decoder},
                                                    {"ByteFallback", add_nothing},
                                                    {"Fuse", add_nothing},
                                                    {NULL, NULL}};

void hf_decoders_read(struct hf_tok *t, const struct jval *root)
{
    struct steps_writer w = {t, "decoder", &t->c->vocab.decoders};
    const struct jval *part = hf_tok_value(root, "decoder");
    if (part) {
        steps_component(&w, part, decoder_rows, "decoders", 0);
        return;
    }
    t->c->vocab.drops_space = 1; /* without a decoder tokens are joined by spaces */
    steps_words(&w, "lead", " ", NULL);
}
