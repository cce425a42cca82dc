/* Sweeps of mgpt patch: exports of a lab page's module. See module.h. The sweep has an engine of its
 * own on the page's model, without the change of lane 0. */
#include "lab/module_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "patch/experiment.h"

#include <stdlib.h>
#include <string.h>

static struct patching {
    struct engine engine;
    struct experiment experiment;
    int32_t *tokens; /* of both prompts */
} patching;

/* Forgets the experiment; the engine's session stays. */
static void patch_forget(void)
{
    lab_change()->site.grid = NULL;
    patch_sweep_end(&patching.experiment.sweep);
    experiment_close(&patching.experiment);
    free(patching.tokens);
    patching.tokens = NULL;
    patching.experiment = (struct experiment){0};
}

void lab_patch_close(void)
{
    patch_forget();
    mgpt_session_free(patching.engine.session);
    patching.engine = (struct engine){0};
}

static int patch_engine(void)
{
    struct engine *e = &patching.engine;
    const mgpt_session_params params = {.kv_type = MGPT_KV_F32};
    if (e->session)
        return MGPT_OK;
    *e = (struct engine){.model = lab_model(), .kv = "f32", .needs_finite = 1};
    int status = mgpt_get_info(e->model, &e->info, lab_last_error());
    mgpt_session *session =
        status == MGPT_OK ? mgpt_session_new(e->model, &params, lab_last_error()) : NULL;
    if (!session)
        return lab_last_error()->status;
    engine_adopt(e, session);
    return MGPT_OK;
}

static int copy_prompts(const int32_t *clean, size_t n_clean, const int32_t *corrupt,
                        size_t n_corrupt)
{
    struct report *r = &patching.experiment.report;
    if (n_clean == 0 || (n_corrupt > 0 && n_corrupt != n_clean))
        return err_set(lab_last_error(), MGPT_EARG, MGPT_NO_OFFSET,
                       "the clean prompt has %zu tokens and the corrupted one %zu: expected the "
                       "same number",
                       n_clean, n_corrupt);
    patching.tokens = mem_new(n_clean + n_corrupt, sizeof *patching.tokens);
    if (!patching.tokens)
        return err_memory(lab_last_error(), "the prompts", n_clean * sizeof *patching.tokens);
    memcpy(patching.tokens, clean, n_clean * sizeof *clean);
    r->runs[RUN_CLEAN] = (struct report_run){.tokens = patching.tokens, .n_tokens = n_clean};
    if (n_corrupt > 0) {
        memcpy(patching.tokens + n_clean, corrupt, n_corrupt * sizeof *corrupt);
        r->runs[RUN_CORRUPT] =
            (struct report_run){.tokens = patching.tokens + n_clean, .n_tokens = n_corrupt};
    }
    r->into = n_corrupt > 0 ? RUN_CORRUPT : RUN_CLEAN;
    return MGPT_OK;
}

/* What `mgpt patch` does before its sweep; the messages are lab_error's (wasm/command.c). */
static int patch_prepare(const char *over, const char *mode, const char *metric)
{
    struct experiment *x = &patching.experiment;
    x->engine = &patching.engine;
    x->request = (struct grid_request){.over = over, .mode = mode};
    x->metric.text = metric;
    if (metric_read(&x->metric, x->engine) != EXIT_OK || experiment_prepare(x) != EXIT_OK)
        return MGPT_EARG;
    int status = experiment_prompts(x, lab_last_error());
    return status == MGPT_OK ? patch_sweep_begin(&x->sweep, x->grids, 1, lab_last_error()) : status;
}

int lab_patch(const int32_t *clean, size_t n_clean, const int32_t *corrupt, size_t n_corrupt,
              const char *over, const char *mode, const char *metric)
{
    if (!lab_model())
        return lab_refuse("no model is open");
    patch_forget();
    int status = patch_engine();
    if (status == MGPT_OK)
        status = copy_prompts(clean, n_clean, corrupt, n_corrupt);
    if (status == MGPT_OK)
        status = patch_prepare(over, mode, metric);
    if (status < 0)
        patch_forget();
    return status < 0 ? status : (int)patch_sweep_left(&patching.experiment.sweep);
}

int lab_patch_step(size_t most_rows)
{
    struct patch_sweep *s = &patching.experiment.sweep;
    int status = MGPT_OK;
    if (!s->batch || patch_sweep_left(s) == 0)
        return 0;
    status = patch_sweep_step(s, most_rows, lab_last_error());
    return status < 0 ? status : (int)patch_sweep_left(s);
}

/* NULL: no sweep has begun. */
static const struct sweep_grid *patch_grid(void)
{
    const struct sweep_grid *grids = patching.experiment.grids;
    if (!patching.experiment.sweep.batch)
        lab_refuse("no sweep has begun");
    return patching.experiment.sweep.batch ? &grids[0] : NULL;
}

int lab_patch_heads(void)
{
    const struct sweep_grid *g = patch_grid();
    return g && g->has_heads ? (int)arr_len(g->heads) : 0;
}

const double *lab_patch_values(void)
{
    const struct sweep_grid *g = patch_grid();
    return g ? g->values : NULL;
}

double lab_patch_metric(int run)
{
    return patching.experiment.report.runs[run == RUN_CORRUPT].value;
}

int lab_patch_apply(size_t index)
{
    const struct sweep_grid *g = patch_grid();
    if (!g || index >= sweep_size(g))
        return g ? lab_refuse("the sweep has no such site") : MGPT_EARG;
    lab_change()->site = sweep_site(&patching.experiment.sweep, g, index);
    lab_change()->is_new = 1;
    return MGPT_OK;
}
