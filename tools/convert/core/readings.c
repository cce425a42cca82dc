/* The readings of a checkpoint by their loss on a text. See readings.h.
 *
 * A number that is open is tried with the usual ones. A reading that the engine has no part for is
 * left out. The text's first tokens count, up to MAX_TOKENS or the context.
 */
#include "convert/core/readings.h"

#include "base/mem.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "convert/core/questions.h"
#include "convert/core/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_READINGS = 1000, MAX_TOKENS = 256, MAX_BYTES = 4096, SHOWN = 8, MAX_CANDIDATES = 12 };

struct text_reading {
    double loss; /* nats for each token; NAN: it does not run */
    int answers[CKPT_N_FACTS];
};

struct candidates {
    const char *texts[MAX_CANDIDATES];
    size_t n; /* 0: the fact is not open */
};

struct readings {
    struct ckpt_source *s;
    struct candidates of[CKPT_N_FACTS];
    char heads[MAX_CANDIDATES][12];
    struct file text;
    struct text_reading *all; /* stb_ds array */
    mgpt_error err;           /* of the last reading that did not run */
};

/* ---- candidates ------------------------------------------------------------------------------ */

static void add_candidate(struct candidates *to, const char *text)
{
    if (to->n < MAX_CANDIDATES)
        to->texts[to->n++] = text;
}

/* Divisors of the width, with heads of 4 values or more. */
static void add_heads(struct readings *r, uint32_t n_embd)
{
    struct candidates *to = &r->of[FACT_HEADS];
    for (uint32_t n = 1; n <= 64 && to->n < MAX_CANDIDATES; n++) {
        if (n_embd % n || (n_embd / n < 4 && n > 1))
            continue;
        snprintf(r->heads[to->n], sizeof r->heads[0], "%u", n);
        add_candidate(to, r->heads[to->n]);
    }
}

static size_t list_candidates(struct readings *r)
{
    size_t product = 1;
    for (int i = 0; i < CKPT_N_FACTS; i++) {
        const struct ckpt_question *q = &ckpt_questions[i];
        struct candidates *to = &r->of[i];
        if (!(r->s->checkpoint.open >> i & 1))
            continue;
        if (i == FACT_HEADS)
            add_heads(r, r->s->checkpoint.hp.n_embd);
        for (size_t k = 0; k < q->n_values; k++)
            add_candidate(to, q->values[k]);
        if (i == FACT_ROPE)
            add_candidate(to, "10000");
        if (i == FACT_EPS) {
            add_candidate(to, "1e-5");
            add_candidate(to, "1e-6");
            add_candidate(to, "1.1920929e-07");
        }
        product *= to->n ? to->n : 1;
    }
    return product;
}

/* ---- one reading ----------------------------------------------------------------------------- */

static double loss_of(const float *logits, size_t n, int32_t id)
{
    double most = logits[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < n; i++)
        sum += exp(logits[i] - most);
    return most + log(sum) - logits[id];
}

static double mean_loss(const mgpt_model *model, const int32_t *tokens, size_t n, mgpt_error *err)
{
    mgpt_info info;
    double sum = 0;
    mgpt_session *session = mgpt_session_new(model, NULL, err);
    int ok = session && mgpt_get_info(model, &info, err) == MGPT_OK;
    for (size_t i = 0; ok && i + 1 < n; i++) {
        const float *logits = mgpt_step(session, tokens[i], err);
        ok = logits != NULL;
        sum += ok ? loss_of(logits, (size_t)info.n_vocab, tokens[i + 1]) : 0;
    }
    mgpt_session_free(session);
    return ok ? sum / (double)(n - 1) : NAN;
}

static double loss_in_memory(struct readings *r, const struct ckpt_memory *memory)
{
    int32_t tokens[MAX_BYTES];
    mgpt_info info;
    double loss = NAN;
    mgpt_model *model = mgpt_open_bytes(memory->bytes, memory->size, NULL, &r->err);
    size_t n_bytes = r->text.size < MAX_BYTES / 2 ? r->text.size : MAX_BYTES / 2;
    while (n_bytes > 0 && n_bytes < r->text.size && (r->text.data[n_bytes] & 0xC0) == 0x80)
        n_bytes--;
    if (model && mgpt_get_info(model, &info, &r->err) == MGPT_OK) {
        int64_t n = mgpt_encode(model, (const char *)r->text.data, n_bytes, MGPT_NO_SPECIAL_TOKENS,
                                tokens, MAX_BYTES, &r->err);
        n = n > MAX_TOKENS ? MAX_TOKENS : n;
        n = n > (int64_t)info.n_ctx ? (int64_t)info.n_ctx : n;
        if (n >= 0 && n < 2)
            ckpt_refuse(&r->err, "--text: fewer than two tokens");
        else if (n > 0)
            loss = mean_loss(model, tokens, (size_t)n, &r->err);
    }
    mgpt_close(model);
    return loss;
}

/* The options of a reading. */
static void readings_answer(const struct readings *r, const int *answers, struct ckpt_options *o)
{
    for (int i = 0; i < CKPT_N_FACTS; i++)
        if (r->of[i].n)
            ckpt_give(o, (enum ckpt_fact)i, r->of[i].texts[answers[i]]);
}

static double loss_of_reading(struct readings *r, const int *answers)
{
    struct ckpt_source again = {.path = r->s->path, .lora = r->s->lora, .options = r->s->options};
    struct ckpt_memory memory = {0};
    double loss = NAN;
    readings_answer(r, answers, &again.options);
    if (source_read(&again, &r->err) == MGPT_OK) {
        if (!again.checkpoint.vocab.model)
            ckpt_refuse(&r->err, "--text: the tokens are not known (--chars, --tokenizer)");
        else if (ckpt_write_memory(&again.checkpoint, NULL, &memory, &r->err) == MGPT_OK)
            loss = loss_in_memory(r, &memory);
    }
    free(memory.bytes);
    source_close(&again);
    return loss;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The next combination: 0 after the last. */
static int next_answers(const struct readings *r, int *answers)
{
    for (int i = CKPT_N_FACTS - 1; i >= 0; i--) {
        if (r->of[i].n && (size_t)++answers[i] < r->of[i].n)
            return 1;
        answers[i] = 0;
    }
    return 0;
}

static int readings_by_loss(const void *a, const void *b)
{
    const struct text_reading *x = a, *y = b;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

static void readings_print(const struct readings *r, const struct text_reading *one)
{
    char option[CKPT_ANSWER];
    printf("%10.4f ", one->loss);
    for (enum ckpt_fact i = 0; i < CKPT_N_FACTS; i++)
        if (r->of[i].n)
            printf(" %s", ckpt_answer_option(i, r->of[i].texts[one->answers[i]], option));
    putchar('\n');
}

static int readings_report(struct readings *r)
{
    size_t n = arr_len(r->all);
    if (!n)
        return cli_fail(r->s->in, &r->err);
    qsort(r->all, n, sizeof *r->all, readings_by_loss);
    puts("nats/token  options");
    for (size_t i = 0; i < n && i < SHOWN; i++)
        readings_print(r, &r->all[i]);
    if (n > SHOWN)
        printf("           (%zu more, up to %.4f)\n", n - SHOWN, r->all[n - 1].loss);
    cli_note("the first line is the proposal; nothing is chosen or written: give its options");
    int code = cli_finish(EXIT_OK);
    return code == EXIT_OK ? EXIT_REFUSED : code;
}

static int readings_run(struct readings *r)
{
    int answers[CKPT_N_FACTS] = {0};
    size_t product = list_candidates(r);
    if (product > MAX_READINGS) {
        ckpt_refuse(&r->err, "--text: %zu readings, expected up to %d: give --heads, or others",
                    product, MAX_READINGS);
        return cli_fail(r->s->in, &r->err);
    }
    do {
        struct text_reading one = {.loss = loss_of_reading(r, answers)};
        memcpy(one.answers, answers, sizeof answers);
        if (!isnan(one.loss) && !arr_push(r->all, one)) {
            err_memory(&r->err, "the readings", sizeof one);
            return cli_fail(r->s->in, &r->err);
        }
    } while (next_answers(r, answers));
    return readings_report(r);
}

int readings_compare(struct ckpt_source *s, const char *text_path)
{
    struct readings r = {.s = s};
    if (files_open(&r.text, text_path, &r.err) < 0)
        return cli_fail(text_path, &r.err);
    int code = readings_run(&r);
    file_close(&r.text);
    arr_free(r.all);
    return code;
}
