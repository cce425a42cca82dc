/* Where and why, for mgpt check. See check_inside.h. */
#include "check/check_inside.h"

#include "check/explain/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The bound of NMSE at one position of one hook: ten times the preset's, which is over all positions,
 * and at least 1e-9, far above what float32 on both sides leaves. */
static double bound_of(const struct compare_bounds *bounds)
{
    return isfinite(bounds->max_nmse) ? fmax(1e-9, 10 * bounds->max_nmse) : 1e-9;
}

static int explain(const struct check_inside *c, const struct answer *answer,
                   const struct locate *locate)
{
    struct explain e;
    mgpt_error err;
    if (locate->first_bad < 0) {
        cli_note("nothing to explain: no value differs by more than NMSE %.3g", locate->bound);
        return EXIT_OK;
    }
    fflush(stdout); /* the verdict can be read while causes are tried, which may take a minute */
    int status = explain_run(&e, c->engine->model, answer, locate, &err);
    if (status != MGPT_OK)
        return cli_fail(c->path, &err);
    struct stat about;
    const char *path = c->engine->path;
    int is_directory = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    int code = c->json ? explain_print_json(&e) : explain_print(&e, is_directory ? path : NULL);
    if (code == EXIT_OK && e.interrupted)
        code = EXIT_INTERRUPTED;
    explain_free(&e);
    return code;
}

/* A value that is not a number on either side is within no bound, also where the logits agree. */
static int inside_is_finite(const struct locate *l)
{
    for (size_t i = 0; i < l->n_hooks; i++)
        if (isnan(l->hooks[i].nmse))
            return 0;
    return 1;
}

int check_inside(const struct check_inside *c)
{
    struct answer answer;
    struct locate locate;
    mgpt_error err;
    if (!c->explain && reference_n_hooks(c->reference) == 0)
        return EXIT_OK;
    int status = answer_open(&answer, c->reference, c->engine->model, c->sequence, c->limit, &err);
    if (status == MGPT_OK)
        status = answer_place_last(&answer, c->engine->model, &err);
    if (status == MGPT_OK)
        status = locate_run(&locate, c->engine->model, &answer, bound_of(c->bounds), &err);
    int code = EXIT_OK;
    if (status != MGPT_OK) {
        code = cli_fail(c->path, &err);
    } else {
        if (!c->json)
            putchar('\n');
        if (answer.n_hooks)
            code = c->json ? locate_print_json(&locate, c->engine->model)
                           : locate_print(&locate, c->engine->model, &answer);
        if (code == EXIT_OK && c->explain)
            code = explain(c, &answer, &locate);
        if (code == EXIT_OK && !inside_is_finite(&locate)) {
            cli_note("an inner value is not a number: different");
            code = EXIT_DIFFERENT;
        }
        locate_free(&locate);
    }
    free((void *)(uintptr_t)answer.hooks);
    free(answer.user);
    return code;
}
