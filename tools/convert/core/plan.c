/* What a conversion would write, for people: mgpt convert --dry-run. */
#include "base/mem.h"
#include "convert/core/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Prints a line. Control characters, which a text from a file may have, are shown as '?'. */
static void line(const char *label, const char *text)
{
    printf("%-14s ", label);
    for (const char *p = text; *p; p++)
        putchar((unsigned char)*p < 32 || *p == 127 ? '?' : *p);
    putchar('\n');
}

static void print_model(const struct checkpoint *c)
{
    const struct ckpt_hparams *hp = &c->hp;
    printf("%-14s %u layers, %u wide, %u heads of %u", "shape", hp->n_layer, hp->n_embd, hp->n_head,
           hp->head_dim ? hp->head_dim : hp->n_embd / hp->n_head);
    if (hp->n_head_kv && hp->n_head_kv != hp->n_head)
        printf(" (%u for keys and values)", hp->n_head_kv);
    printf(", mlp %u\n%-14s %u positions\n", hp->n_ff, "context", hp->n_ctx);
    printf("%-14s norm eps %g", "dialect", (double)hp->norm_eps);
    if (hp->rope_base > 0)
        printf(", rope base %g on %u of each head", (double)hp->rope_base, hp->n_rot);
    if (hp->activation)
        printf(", %s", hp->activation);
    if (hp->arch && strcmp(hp->arch, "microgpt") == 0)
        printf(", %s after the embedding, %s before the head",
               hp->embedding_norm ? "norm" : "no norm", hp->final_norm ? "norm" : "no norm");
    if (hp->window)
        printf(", window %u", hp->window);
    printf("\n%-14s %zu tokens (%s), logits %u, BOS %d\n", "vocabulary", arr_len(c->vocab.tokens),
           c->vocab.model ? c->vocab.model : "none", hp->n_vocab, (int)c->vocab.bos);
}

static void plan_print_tensor(const struct ckpt_tensor *t, const struct dtype *type)
{
    printf("%-28s %-5s [", t->name, ckpt_type_of(t, type)->name);
    for (uint32_t d = 0; d < t->n_dims; d++)
        printf("%s%" PRIu64, d ? ", " : "", t->dims[d]);
    puts("]");
}

void ckpt_print_plan(const struct checkpoint *c, const struct dtype *type)
{
    struct ckpt_written w;
    ckpt_measure(c, type, &w);
    line("format", c->format);
    line("architecture", c->hp.arch ? c->hp.arch : "(not stated)");
    if (c->metadata)
        printf("%-14s %zu entries, copied\n", "metadata", arr_len(c->metadata->kv));
    else
        print_model(c);
    printf("%-14s %" PRIu64 ", %s, %" PRIu64 " bytes\n\n", "weights", w.n_values, w.type,
           w.n_bytes);
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        plan_print_tensor(&c->tensors[i], type);
}
