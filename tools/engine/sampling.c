/* From options to a sampler. See sampling.h. */
#include "engine/sampling.h"

#include "base/splitmix.h"

#include <string.h>

int sampling_begin(struct sampling *s, const struct cli_command *command)
{
    int python = s->rng && strcmp(s->rng, "python") == 0;
    if (s->rng && !python && strcmp(s->rng, "splitmix") != 0)
        return cli_usage(command, "--rng: expected splitmix or python, found '%s'", s->rng);
    if (s->skip && !python)
        return cli_usage(command, "--rng-skip needs --rng python");
    s->seed_given = s->seed != SAMPLING_NO_SEED;
    s->seed = s->seed_given ? s->seed : 0;
    sampling_use_python(s, python);
    sampling_apply(s);
    sampling_seed(s, s->seed);
    return EXIT_OK;
}

/* ---- edits ---- */

static int set_edit(struct sampling *s, enum edit_id id, const char *text,
                    const struct cli_command *command)
{
    mgpt_error err;
    int status = edit_rules_set(&s->rules, id, text, &err);
    if (status == MGPT_EARG)
        return cli_usage(command, "--%s: %s", edit_settings[id].name, err.text);
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

static int set_NUMBERS(struct sampling *s, enum edit_id id, const char *const *text,
                       const struct cli_command *command)
{
    return *text ? set_edit(s, id, *text, command) : EXIT_OK;
}

static int set_TEXTS(struct sampling *s, enum edit_id id, const struct cli_many *texts,
                     const struct cli_command *command)
{
    int code = EXIT_OK;
    for (size_t i = 0; code == EXIT_OK && i < texts->n; i++)
        code = set_edit(s, id, texts->values[i], command);
    return code;
}

int sampling_begin_edits(struct sampling *s, const mgpt_model *model,
                         const struct cli_command *command)
{
    int code = EXIT_OK;
    mgpt_error err;
    edit_rules_begin(&s->rules, model);
#define EDIT_SET(id, kind, ...)                                                                    \
    if (code == EXIT_OK)                                                                           \
        code = set_##kind(s, EDIT_##id, &s->edits.id, command);
    EDIT_SETTINGS(EDIT_SET)
    if (code == EXIT_OK && chooser_open(&s->chooser, &s->rules, &err) < 0)
        code = cli_fail(NULL, &err);
    chooser_begin(&s->chooser, 0, 0);
    return code;
}

void sampling_end(struct sampling *s)
{
    chooser_close(&s->chooser);
    edit_rules_free(&s->rules);
}

void sampling_moved(struct sampling *s)
{
    sampling_use_python(s, sampling_is_shared(s));
    s->chooser.rules = &s->rules;
}

#define EDIT_GIVEN_IN_NUMBERS(id) s->edits.id != NULL
#define EDIT_GIVEN_IN_TEXTS(id) s->edits.id.n > 0
#define EDIT_OR_GIVEN(id, kind, ...) || (EDIT_GIVEN_IN_##kind(id))
int sampling_edits_given(const struct sampling *s)
{
    return 0 EDIT_SETTINGS(EDIT_OR_GIVEN);
}

/* ---- numbers ---- */

void sampling_use_python(struct sampling *s, int python)
{
    s->sampler.uniform = python ? rng_python_uniform : NULL;
    s->sampler.uniform_user = python ? &s->python : NULL;
}

void sampling_apply(struct sampling *s)
{
#define SETTING_REAL(field) s->sampler.field = (float)s->field;
#define SETTING_INT(field) s->sampler.field = s->field;
#define APPLY_SETTING(field, kind, ...) SETTING_##kind(field)
    SAMPLER_SETTINGS(APPLY_SETTING)
}

mgpt_sampler sampling_of_sample(const struct sampling *s, uint64_t sample)
{
    mgpt_sampler sampler = s->sampler;
    if (sample > 0)
        sampler.rng =
            splitmix_number(splitmix_number(s->seed + SPLITMIX_STEP) + sample * SPLITMIX_STEP);
    return sampler;
}

int sampling_is_shared(const struct sampling *s)
{
    return s->sampler.uniform != NULL;
}

void sampling_seed(struct sampling *s, uint64_t seed)
{
    s->seed = seed;
    s->sampler.rng = seed;
    rng_python_seed(&s->python, seed);
    rng_python_skip(&s->python, s->skip);
}
