/* Mapping: the bigram models of ng-video-lecture, which have no layers.
 *
 *   token_embedding_table [V, V]                       a row of the table is the logits
 *   token_embedding_table [V, E], lm_head [V, E] with bias, position_embedding_table [T, E] or none
 *
 * The first becomes an embedding and a head that is the identity: 1 * x plus zeros is x.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/torch_model.h"

#include <string.h>

#define TOKENS "token_embedding_table.weight"
#define POSITIONS "position_embedding_table.weight"

enum { CONTEXT = 1024 }; /* where nothing limits it */

static const struct state_row rows[] = {
    {"token_embedding_table", "token_embd", 'V', 'E', 0},
    {"position_embedding_table", "position_embd", 'T', 'E', STATE_OPTIONAL},
    {"lm_head", "output", 'V', 'E', STATE_OPTIONAL | STATE_BIAS_OPTIONAL},
};

static void from_bigram_sizes(struct torch_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, E2, T;
    torch_shape(m, TOKENS, &V, &E);
    if (state_has(m->state, POSITIONS))
        torch_shape(m, POSITIONS, &T, &E2);
    else
        T = torch_context(m, CONTEXT, "nothing limits it");
    hp->arch = "microgpt";
    hp->n_head = 1;
    hp->norm_eps = 1e-5F; /* of no norm: the file must state one */
    const struct ckpt_wanted wanted[] = {{&hp->n_vocab, "vocab_size", V},
                                         {&hp->n_embd, "n_embd", E},
                                         {&hp->n_ctx, "block_size", T},
                                         {&hp->n_ff, "the hidden width", 4 * E}};
    ckpt_sizes(m->c, wanted, 4);
}

static void from_bigram_put_head(struct torch_model *m)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    if (state_has(m->state, "lm_head.weight"))
        return;
    if (hp->n_embd != hp->n_vocab)
        state_missing(m->c, "lm_head.weight");
    ckpt_add(m->c, "output.weight", hp->n_embd, hp->n_vocab,
             (struct ckpt_tensor){.values = torch_identity});
}

static int from_bigram_match(const struct torch_model *m)
{
    if (!state_has(m->state, TOKENS))
        return 0;
    for (size_t i = 0; i < arr_len(m->state->tensors); i++)
        if (!ckpt_is_one_of(m->state->tensors[i].name,
                            " " TOKENS " " POSITIONS " lm_head.weight lm_head.bias "))
            return 0;
    return 1;
}

static void from_bigram_map(struct torch_model *m)
{
    from_bigram_sizes(m);
    state_map(m->state, rows, sizeof rows / sizeof *rows);
    from_bigram_put_head(m);
    torch_vocab(m, NULL);
}

const struct torch_mapping bigram_mapping = {"ng-video-lecture bigram",
                                             OPT_CONTEXT | OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                             from_bigram_match, from_bigram_map};
