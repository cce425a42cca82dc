/* Repl commands that move the session: feeding, stepping, going back. Token text always passes the
 * escaper. */
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- feeding ---- */

void repl_print_place(const struct repl *r)
{
    size_t n_ahead = arr_len(r->branches[r->current].ahead);
    printf("%zu of %zu", mgpt_pos(r->engine.session), mgpt_n_ctx(r->engine.session));
    if (n_ahead > 0)
        printf(", %zu ahead", n_ahead);
    putchar('\n');
}

void repl_feed_tokens(struct repl *r, const int32_t *tokens, size_t n)
{
    const mgpt_session *session = r->engine.session;
    size_t free_positions = mgpt_n_ctx(session) - mgpt_pos(session);
    mgpt_error err;
    if (n > free_positions) {
        repl_note_code(EXIT_FULL);
        repl_error("%zu tokens, but %zu of %zu positions are free: /b goes back", n, free_positions,
                   mgpt_n_ctx(session));
        return;
    }
    if (repl_append(r, tokens, n, &err) < 0) {
        repl_failed(&err);
        return;
    }
    printf("fed %zu:", n);
    repl_print_tokens(r, tokens, n);
    printf(" (%zu of %zu)\n", mgpt_pos(session), mgpt_n_ctx(session));
}

void repl_feed(struct repl *r, const char *text, size_t n)
{
    const mgpt_info *info = &r->engine.info;
    int32_t *tokens, bos = mgpt_pos(r->engine.session) == 0 && info->add_bos ? info->bos : -1;
    size_t n_tokens;
    fflush(stdout);
    int code =
        engine_encode(&r->engine, "text", text, n, MGPT_NO_SPECIAL_TOKENS, bos, &tokens, &n_tokens);
    if (code == EXIT_OK)
        repl_feed_tokens(r, tokens, n_tokens);
    else
        repl_note_code(code);
    free(tokens);
}

void repl_run_feed(struct repl *r, struct repl_args *args)
{
    int64_t length = text_unescape(args->rest, (size_t)(args->end - args->rest));
    if (length < 0)
        repl_bad_escape();
    else
        repl_feed(r, args->rest, (size_t)length);
}

void repl_run_ids(struct repl *r, struct repl_args *args)
{
    int32_t *ids = NULL, id;
    int good = 1;
    for (char *item; good && *(item = repl_cut(&args->rest, " \t,"));) {
        good = repl_read_token(r, item, strlen(item), &id);
        if (good && !arr_push(ids, id)) {
            repl_no_memory();
            good = 0;
        }
    }
    if (good && arr_len(ids) == 0)
        repl_error("which tokens? For example: /ids 1 2 3");
    else if (good)
        repl_feed_tokens(r, ids, arr_len(ids));
    arr_free(ids);
}

/* ---- stepping ---- */

static void print_choice(const struct repl *r, const float *logits, int32_t token)
{
    double logprob = mgpt_logprob(logits, repl_n_logits(r), token);
    printf("%4zu: %6d  p %.4f  rank %-4zu ", mgpt_pos(r->engine.session), (int)token, exp(logprob),
           repl_rank(logits, repl_n_logits(r), token));
    text_print_token(stdout, r->engine.model, token);
}

int32_t repl_run_draw(struct repl *r, const float **logits)
{
    mgpt_session *session = r->engine.session;
    *logits = repl_logits(r);
    if (!*logits)
        return -1;
    if (mgpt_pos(session) == mgpt_n_ctx(session)) {
        repl_note_code(EXIT_FULL);
        repl_error("the context is full (%zu positions): /b goes back, /reset begins anew",
                   mgpt_n_ctx(session));
        return -1;
    }
    size_t pos = mgpt_pos(session);
    mgpt_error err;
    if (r->drawn_session != session || r->drawn_end != pos)
        chooser_begin(&r->sampling.chooser, pos, 0);
    r->drawn_session = session;
    r->drawn_end = pos;
    int32_t token = chooser_draw(&r->sampling.chooser, &r->sampling.sampler, *logits,
                                 engine_n_choices(&r->engine), mgpt_tokens(session), pos, &err);
    if (token < 0)
        repl_failed(&err);
    return token < 0 ? -1 : token;
}

void repl_run_say_back(const struct repl *r, const struct edit_text *banned)
{
    repl_say("  back to %zu: ban %s", mgpt_pos(r->engine.session), banned->given);
}

/* Goes back if the token drawn last has completed a banned text. 0: after an error. */
static int leave_banned(struct repl *r, const struct edit_text **banned)
{
    mgpt_session *session = r->engine.session;
    mgpt_error err;
    int64_t to =
        chooser_back(&r->sampling.chooser, mgpt_tokens(session), mgpt_pos(session), banned);
    if (to < 0)
        repl_no_memory();
    if (!*banned || to < 0)
        return to >= 0;
    int status = repl_go(r, (size_t)to, &err);
    if (status < 0)
        repl_failed(&err);
    r->drawn_end = (size_t)to;
    return status == MGPT_OK;
}

int repl_run_keep(struct repl *r, int32_t token, const struct edit_text **banned)
{
    mgpt_error err;
    const mgpt_session *drawn = r->drawn_session;
    *banned = NULL;
    if (repl_append(r, &token, 1, &err) == MGPT_OK) {
        r->drawn_session = drawn;
        r->drawn_end = mgpt_pos(r->engine.session);
        return leave_banned(r, banned);
    }
    repl_failed(&err);
    return 0;
}

/* 1 when a token was drawn and kept. */
static int repl_run_step(struct repl *r)
{
    const float *logits;
    int32_t token = repl_run_draw(r, &logits);
    if (token < 0)
        return 0;
    print_choice(r, logits, token);
    int end = mgpt_is_end(r->engine.model, token);
    puts(end ? "  the end, not kept" : "");
    const struct edit_text *banned = NULL;
    int kept = !end && repl_run_keep(r, token, &banned);
    if (banned)
        repl_run_say_back(r, banned);
    if (kept)
        repl_watch_print(r);
    return kept;
}

void repl_step(struct repl *r)
{
    repl_run_step(r);
}

void repl_run_steps(struct repl *r, struct repl_args *args)
{
    int32_t count = args->count ? args->count : 1;
    for (int32_t i = 0; i < count && !interrupted() && !ferror(stdout); i++)
        if (!repl_run_step(r))
            return;
}

/* Runs what healing asks for after the kept tokens, in copies. 0: after an error. */
static int learn_to_heal(struct repl *r, struct heal *h)
{
    int32_t run[1 + HEAL_BYTES], n;
    mgpt_error err;
    run[0] = mgpt_tokens(r->engine.session)[h->n_kept - 1];
    while ((n = heal_next(h)) >= 0) {
        memcpy(run + 1, h->path, (size_t)n * sizeof *run);
        mgpt_session *copy = repl_variant(r, h->n_kept - 1, run, 1 + (size_t)n, NULL);
        int status = MGPT_OK;
        if (copy)
            status = heal_learn(h, mgpt_logits(copy), engine_n_choices(&r->engine), &err);
        mgpt_session_free(copy);
        if (status < 0)
            repl_failed(&err);
        if (!copy || status < 0)
            return 0;
    }
    return 1;
}

/* 1 when the bytes have been drawn. */
static int is_healed(const struct repl *r, const struct heal *h)
{
    const int32_t *drawn = mgpt_tokens(r->engine.session) + h->n_kept;
    size_t n = mgpt_pos(r->engine.session) - h->n_kept;
    return n > 0 && heal_repeats(h, drawn, n - 1, drawn[n - 1]) < n;
}

static void draw_healed(struct repl *r, struct heal *h)
{
    struct sampling *s = &r->sampling;
    mgpt_error err;
    int status = repl_go(r, h->n_kept, &err);
    s->rules.heal = h;
    r->drawn_session = NULL;
    if (status == MGPT_OK)
        status = chooser_open(&s->chooser, &s->rules, &err);
    if (status < 0)
        repl_failed(&err);
    while (status == MGPT_OK && !is_healed(r, h) && !interrupted() && repl_run_step(r))
        ;
    s->rules.heal = NULL;
    chooser_open(&s->chooser, &s->rules, &err); /* what it has suffices */
}

void repl_run_heal(struct repl *r, struct repl_args *args)
{
    const mgpt_session *session = r->engine.session;
    const struct edit_rules *rules = &r->sampling.rules;
    struct heal h;
    mgpt_error err;
    (void)args;
    if (edit_rules_is_on(rules, EDIT_BAN) || edit_rules_is_on(rules, EDIT_REGEX)) {
        repl_error("/heal does not go with ban and regex: /set ban off");
    } else if (text_is_none(r->engine.model)) {
        repl_error("the model has no vocabulary, so its text is ids");
    } else if (heal_open(&h, r->engine.model, mgpt_tokens(session), mgpt_pos(session), &err) < 0) {
        repl_failed(&err);
    } else if (h.n_bytes == 0) {
        puts("nothing to heal: no token can go over the end of the text");
        heal_close(&h);
    } else {
        if (learn_to_heal(r, &h))
            draw_healed(r, &h);
        heal_close(&h);
    }
}

static void go_to_position(struct repl *r, size_t pos)
{
    mgpt_error err;
    if (repl_go(r, pos, &err) < 0)
        repl_failed(&err);
    repl_print_place(r);
}

void repl_run_back(struct repl *r, struct repl_args *args)
{
    size_t pos = mgpt_pos(r->engine.session), count = args->count ? (size_t)args->count : 1;
    if (count > pos)
        repl_error("back %zu, but only %zu tokens are held", count, pos);
    else
        go_to_position(r, pos - count);
}

void repl_run_goto(struct repl *r, struct repl_args *args)
{
    go_to_position(r, args->pos);
}

void repl_run_reset(struct repl *r, struct repl_args *args)
{
    mgpt_error err;
    (void)args;
    struct repl_branch *b = &r->branches[r->current];
    if (mgpt_rewind(r->engine.session, 0, &err) < 0)
        repl_failed(&err);
    if (b->ahead)
        arr_set_len(b->ahead, 0);
    sampling_seed(&r->sampling, r->sampling.seed);
}
