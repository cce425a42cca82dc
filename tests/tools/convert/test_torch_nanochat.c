/* Tools: facts of nanochat's files, and of modded-nanogpt's, which have the same names. */
#include "support/torch_made.h"
#include "support/unit.h"

/* Tied, which nanochat never is, and without nanochat's marks: no norm of the embedding. */
TEST(modded_nanogpt)
{
    static const struct ckpt_options all = {
        .given = OPT_HEADS | OPT_ROPE | OPT_SOFTCAP, .n_head = 1, .rope_base = 10000};
    static const uint8_t others[2][sizeof zeros] = {{1}};
    for (int kind = 0; kind < 4; kind++) { /* tied, nanochat's file, not tied, tied by content */
        struct made f = {.d = {.n = 0}, .o = all};
        make(&f, nanochat, NULL);
        if (kind == 1)
            add_file(&f.d, "config.json", "{}");
        if (kind >= 2)
            for (size_t i = 0; i < arr_len(f.m.state->tensors); i++)
                if (strcmp(f.m.state->tensors[i].name, "lm_head.weight") == 0)
                    f.m.state->tensors[i].bytes.data = others[kind - 2];
        map(&f, &nanochat_mapping, NULL);
        assert_int_equal(f.c.hp.no_embedding_norm, kind % 3 == 0);
        assert_int_equal(has_note(&f.c, "modded-nanogpt of October 2024"), kind % 3 == 0);
        unmake(&f);
    }
}

/* A note names the rows of the embedding beyond the vocabulary. The last layer, here the only one, sees all. */
TEST(nanochat_facts)
{
    struct made f = {.d = {.n = 0}};
    add_file(&f.d, "config.json", "{\"vocab_size\":4,\"window_pattern\":\"S\"}");
    make(&f, nanochat, NULL);
    map(&f, &nanochat_mapping, NULL);
    assert_int_equal(f.c.hp.n_vocab, 4);
    assert_true(has_note(&f.c, "the last 1 rows of the embedding are padding, left out"));
    assert_null(f.c.hp.windows);
    unmake(&f);
}
