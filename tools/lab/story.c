/* The story of a page. See story.h. */
#include "lab/story.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/text.h"
#include "lab/story_count.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What all steps are told with. */
struct teller {
    struct story *story;
    const struct engine *last;
    struct story_texts texts, held; /* held: the page's own text where no file is given */
    const int32_t *front;           /* drawn texts go on after these; borrowed */
    size_t n_front;
    double letters, pairs;
};

/* ---- the models ---- */

/* The last number in the file's name. */
static int find_number(const char *path, uint64_t *number)
{
    const char *name = strrchr(path, '/'), *end, *p;
    name = name ? name + 1 : path;
    for (end = name + strlen(name); end > name && (end[-1] < '0' || end[-1] > '9'); end--)
        ;
    for (p = end; p > name && p[-1] >= '0' && p[-1] <= '9'; p--)
        ;
    *number = strtoull(p, NULL, 10);
    return end > name;
}

static int by_step(const void *a, const void *b)
{
    const struct story_step *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

int story_take(struct story *story, const char *const *paths, size_t n)
{
    story->n = n;
    for (size_t i = 0; i < n; i++) {
        story->steps[i] = (struct story_step){.path = paths[i], .loss = NAN};
        if (find_number(paths[i], &story->steps[i].number))
            continue;
        cli_note("%s: which step of training? The last number in a model's name says it", paths[i]);
        return 0;
    }
    qsort(story->steps, n, sizeof *story->steps, by_step);
    for (size_t i = 1; i < n; i++)
        if (story->steps[i].number == story->steps[i - 1].number) {
            cli_note("%s and %s: both are of step %" PRIu64, story->steps[i - 1].path,
                     story->steps[i].path, story->steps[i].number);
            return 0;
        }
    return 1;
}

static int refuse_shape(const struct engine *e, const char *what, const struct engine *last)
{
    cli_note("%s: %s is not as in %s: the steps of a story are one model", e->path, what,
             last->path);
    return EXIT_REFUSED;
}

/* Types, names and sizes of the tensors, and what else the pages take from the last model. */
static int check_step_shape(const struct engine *e, const struct engine *last)
{
    const mgpt_info *a = &e->info, *b = &last->info;
    mgpt_tensor s, t;
    for (size_t i = 0;; i++) {
        int more = mgpt_get_tensor(last->model, i, &t, NULL) == MGPT_OK;
        if ((mgpt_get_tensor(e->model, i, &s, NULL) == MGPT_OK) != more)
            return refuse_shape(e, "the number of tensors", last);
        if (!more)
            break;
        if (strcmp(s.name, t.name) != 0 || strcmp(s.type, t.type) != 0 ||
            memcmp(s.dims, t.dims, sizeof s.dims) != 0)
            return refuse_shape(e, t.name, last);
    }
    if (strcmp(a->arch, b->arch) != 0 || a->n_ctx != b->n_ctx || a->n_head != b->n_head ||
        a->n_head_kv != b->n_head_kv || a->bos != b->bos || a->eos != b->eos)
        return refuse_shape(e, "the architecture", last);
    return engine_same_tokens(last, e);
}

/* ---- numbers of a step ---- */

static int score_step(struct teller *t, struct engine *e, struct story_step *step)
{
    const size_t n = mgpt_n_ctx(e->session), n_texts = arr_len(t->held.list);
    struct score_team team = {.engine = e, .windows = {n, n}};
    double sum = 0;
    if (t->held.n_tokens == 0)
        return EXIT_OK;
    int code = score_texts(&team, t->held.list, n_texts);
    score_close(&team);
    for (size_t i = 0; i < n_texts; i++)
        sum += t->held.list[i].nll;
    if (code == EXIT_OK)
        step->loss = sum / (double)t->held.n_tokens;
    return code;
}

/* Sample `number` of mgpt generate with this seed and temperature, of at most STORY_LONGEST tokens. Returns a status. */
static int draw_text(const struct teller *t, struct engine *e, uint64_t number, char **text,
                     mgpt_error *err)
{
    const struct sampling sampling = {
        .sampler = {.temperature = (float)STORY_TEMPERATURE, .rng = STORY_SEED},
        .seed = STORY_SEED};
    mgpt_sampler sampler = sampling_of_sample(&sampling, number);
    size_t room = mgpt_n_ctx(e->session) - t->n_front, n_choices = engine_n_choices(e);
    struct text_out out;
    int status = mgpt_sync(e->session, t->front, t->n_front, err);
    const float *logits = status < 0 ? NULL : mgpt_logits(e->session);
    text_out_open(&out, e->model, NULL);
    for (size_t i = 0; logits && i < STORY_LONGEST; i++) {
        int32_t token = mgpt_sample(&sampler, logits, n_choices);
        if (mgpt_is_end(e->model, token))
            break;
        text_out_token(&out, token, 0);
        if (i == room)
            break;
        logits = engine_step(e, token, err);
    }
    text_out_end(&out);
    if (logits && !arr_append(&out.buffer, "", 1))
        status = err_memory(err, "a drawn text", 1);
    *text = logits && status == MGPT_OK ? strdup(out.buffer) : NULL;
    text_out_close(&out);
    return *text ? MGPT_OK : err->status < 0 ? err->status : err_memory(err, "a drawn text", 1);
}

static int draw_texts(const struct teller *t, struct engine *e, struct story_step *step,
                      mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < STORY_DRAWN && t->n_front > 0 && status == MGPT_OK; i++)
        status = draw_text(t, e, i, &step->texts[i], err);
    return status;
}

/* The bytes of its file, which pages carry. */
static int keep_bytes(const struct engine *e, struct story_step *step, mgpt_error *err)
{
    struct file file;
    const uint8_t *bytes;
    int status = engine_bytes(e, &file, &bytes, &step->n_bytes, err);
    if (status < 0)
        return status;
    step->bytes = mem_new(step->n_bytes, 1);
    if (step->bytes)
        memcpy(step->bytes, bytes, step->n_bytes);
    else
        status = err_memory(err, "a model", step->n_bytes);
    file_close(&file);
    return status;
}

static int tell_step(struct teller *t, struct story_step *step)
{
    struct engine e = {.path = step->path};
    mgpt_error err = {0};
    int status = MGPT_OK, code = engine_open(&e);
    if (code == EXIT_OK)
        code = check_step_shape(&e, t->last);
    if (code == EXIT_OK)
        code = engine_session(&e);
    if (code == EXIT_OK)
        code = score_step(t, &e, step);
    if (code == EXIT_OK)
        status = draw_texts(t, &e, step, &err);
    if (code == EXIT_OK && status == MGPT_OK)
        status = keep_bytes(&e, step, &err);
    engine_close(&e);
    return status < 0 ? cli_fail(step->path, &err) : code;
}

/* ---- the page ---- */

static struct jtext *step_json(const struct teller *t, const struct story_step *step)
{
    struct jtext *texts = jtext("[]");
    for (size_t i = 0; i < STORY_DRAWN && step->texts[i]; i++)
        jtext_add(texts, "[s, b]", step->texts[i], story_knows(&t->texts, step->texts[i]));
    return jtext("{s:I, s:f, s:I, s:o}", "step", (int64_t)step->number, "loss", step->loss, "bytes",
                 (int64_t)step->n_bytes, "texts", texts);
}

static struct jtext *story_json(const struct teller *t)
{
    struct jtext *steps = jtext("[]");
    for (size_t i = 0; i < t->story->n; i++)
        jtext_add(steps, "o", step_json(t, &t->story->steps[i]));
    return jtext("{s:o, s:I, s:I, s:f, s:f, s:f, s:i, s:f}", "steps", steps, "held",
                 (int64_t)(t->story->held ? arr_len(t->held.list) : 0), "texts",
                 (int64_t)arr_len(t->texts.list), "blind", log((double)engine_n_choices(t->last)),
                 "letters", t->letters, "pairs", t->pairs, "seed", (int)STORY_SEED, "temperature",
                 STORY_TEMPERATURE);
}

/* The page's tokens as the held-out text. */
static int hold_own(struct teller *t, const int32_t *tokens, size_t n)
{
    mgpt_error err;
    struct scored_text own = {.n_context = 1, .n_scored = n > 0 ? n - 1 : 0};
    if (own.n_scored == 0)
        return EXIT_OK;
    own.tokens = mem_new(n, sizeof *tokens);
    if (own.tokens)
        memcpy(own.tokens, tokens, n * sizeof *tokens);
    if (!own.tokens || !arr_push(t->held.list, own)) {
        free(own.tokens);
        err_memory(&err, "a text", n * sizeof *tokens);
        return cli_fail(NULL, &err);
    }
    t->held.n_tokens = own.n_scored;
    return EXIT_OK;
}

static int read_texts(struct teller *t, const int32_t *tokens, size_t n_tokens)
{
    const size_t n_vocab = engine_n_choices(t->last);
    int code = t->story->texts ? story_read(&t->texts, t->last, t->story->texts) : EXIT_OK;
    if (code == EXIT_OK)
        code = t->story->held ? story_read(&t->held, t->last, t->story->held)
                              : hold_own(t, tokens, n_tokens);
    if (code == EXIT_OK)
        code = story_count(&t->texts, &t->held, n_vocab, 0, &t->letters);
    if (code == EXIT_OK)
        code = story_count(&t->texts, &t->held, n_vocab, 1, &t->pairs);
    story_sort(&t->texts);
    return code;
}

int story_tell(struct story *story, const struct engine *last, const int32_t *tokens,
               size_t n_tokens, struct jtext **json)
{
    int32_t bos[ENGINE_FRONT];
    size_t n_bos = last->info.add_bos ? engine_front(last, last->info.bos, bos) : 0;
    struct teller t = {.story = story,
                       .last = last,
                       .front = n_bos ? bos : tokens,
                       .n_front = n_bos ? n_bos : n_tokens};
    int code = read_texts(&t, tokens, n_tokens);
    for (size_t i = 0; i < story->n && code == EXIT_OK; i++)
        code = tell_step(&t, &story->steps[i]);
    *json = code == EXIT_OK ? story_json(&t) : NULL;
    story_texts_free(&t.texts);
    story_texts_free(&t.held);
    return code;
}

int story_put(const struct story *story, struct page_out *page, mgpt_error *err)
{
    int status = page_begin(page, "mgpt-steps", err);
    for (size_t i = story->n - 1; i-- > 0 && status == MGPT_OK;) {
        const struct story_step *step = &story->steps[i], *after = step + 1;
        uint8_t *bytes = mem_new(step->n_bytes, 1);
        if (!bytes)
            return err_memory(err, "a model", step->n_bytes);
        for (size_t b = 0; b < step->n_bytes; b++)
            bytes[b] = step->bytes[b] ^ (step->n_bytes == after->n_bytes ? after->bytes[b] : 0);
        page_add(page, bytes, step->n_bytes);
        free(bytes);
    }
    if (status == MGPT_OK)
        page_end(page);
    return status;
}

void story_free(struct story *story)
{
    for (size_t i = 0; i < story->n; i++) {
        free(story->steps[i].bytes);
        for (size_t k = 0; k < STORY_DRAWN; k++)
            free(story->steps[i].texts[k]);
    }
    story->n = 0;
}
