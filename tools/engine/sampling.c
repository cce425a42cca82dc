/* From options to a sampler. See sampling.h. */
#include "engine/sampling.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/splitmix.h"
#include "choose/schema.h"
#include "common/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Rows of SAMPLER_SETTINGS, as bits of `given`. */
#define SETTING_ROW(field, ...) ROW_##field,
enum { SAMPLER_SETTINGS(SETTING_ROW) N_ROWS };

int sampling_draw_seed(uint64_t *seed)
{
    uint32_t drawn;
    if (getentropy(&drawn, sizeof drawn) < 0)
        return 0;
    *seed = drawn;
    return 1;
}

int sampling_read_seed(const char *text, uint64_t *seed)
{
    const struct cli_option row = {.kind = CLI_U64, .to = seed};
    if (strcmp(text, "-1") != 0)
        return cli_set_number(&row, text);
    if (!sampling_draw_seed(seed))
        return 0;
    cli_info("seed %" PRIu64, *seed);
    return 1;
}

int sampling_begin(struct sampling *s, const struct cli_command *command)
{
    int python = s->rng && strcmp(s->rng, "python") == 0;
    if (s->rng && !python && strcmp(s->rng, "splitmix") != 0)
        return cli_usage(command, "--rng: expected splitmix or python, found '%s'", s->rng);
    if (s->skip && !python)
        return cli_usage(command, "--rng-skip needs --rng python");
    if (s->typed_seed && !sampling_read_seed(s->typed_seed, &s->seed))
        return cli_usage(command, "-s, --seed: expected a whole number, found '%s'", s->typed_seed);
#define SETTING_OR_USUAL(field, kind, name, key, argument, most, usual, ...)                       \
    if (s->field >= 0)                                                                             \
        s->given |= 1U << ROW_##field;                                                             \
    else                                                                                           \
        s->field = usual;
    SAMPLER_SETTINGS(SETTING_OR_USUAL)
    if (!(s->given & 1U << ROW_temperature))
        s->temperature = s->usual_temperature;
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

/* ---- the author's settings ---- */

#define EDIT_GIVEN_IN_NUMBERS(id) s->edits.id != NULL
#define EDIT_GIVEN_IN_TEXTS(id) s->edits.id.n > 0
#define IS_EDIT_GIVEN(id, kind, ...) [EDIT_##id] = EDIT_GIVEN_IN_##kind(id),

/* Takes a setting that no option gives. 1, 0 if one does; MGPT_EARG, MGPT_EMEM. */
static int take_authors(struct sampling *s, const struct author_setting *a, mgpt_error *err)
{
    const struct cli_option rows[] = {SAMPLER_SETTINGS(SAMPLER_OPTION)};
    const int edit_given[] = {EDIT_SETTINGS(IS_EDIT_GIVEN)};
    const enum edit_id id = edit_setting_named(a->name);
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(cli_long_name(&rows[i]), a->name) != 0)
            continue;
        if (s->given & 1U << i)
            return 0;
        return cli_set_number(&rows[i], a->text)
                   ? 1
                   : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                             "expected a number from 0 to %g, found '%s'", rows[i].max, a->text);
    }
    if (id == EDIT_N || edit_given[id])
        return 0;
    int status = edit_rules_set(&s->rules, id, a->text, err);
    return status < 0 ? status : edit_rules_count(&s->rules, id) > 0;
}

/* Takes what the author gives and no option does, and says so in a line. Returns an exit code. */
static int take_all_authors(struct sampling *s, const mgpt_model *model, const char *path)
{
    struct author_setting settings[AUTHOR_MOST];
    char line[400] = "";
    size_t at = 0;
    mgpt_error err, why;
    int n = author_read(model, settings, &err);
    for (int i = 0; i < n; i++) {
        int taken = take_authors(s, &settings[i], &why);
        if (taken < 0) {
            err_set(&err, taken == MGPT_EARG ? MGPT_EFILE : taken, MGPT_NO_OFFSET,
                    "the author's %s: %s (--ignore-author)", settings[i].name, why.text);
            return cli_fail(path, &err);
        }
        if (taken)
            at += (size_t)snprintf(line + at, sizeof line - at, "%s%s %s", at ? ", " : "",
                                   settings[i].name, settings[i].text);
    }
    if (at)
        cli_info("author's settings: %s%s (--ignore-author leaves them out)", line,
                 author_orders(model) ? ", in our order" : "");
    sampling_apply(s);
    return n < 0 ? cli_fail(path, &err) : EXIT_OK;
}

/* --json-schema: the expression of a schema is that of --regex. */
static int set_schema(struct sampling *s, const struct cli_command *command)
{
    struct file file = {.size = 0};
    char *pattern = NULL;
    mgpt_error err;
    if (!s->schema)
        return EXIT_OK;
    if (s->edits.REGEX.n > 0)
        return cli_usage(command, "--regex and --json-schema: only one of them");
    int status = files_open(&file, s->schema, &err);
    if (status == MGPT_OK)
        status = schema_pattern((const char *)file.data, file.size, &pattern, &err);
    if (status == MGPT_OK)
        status = edit_rules_set(&s->rules, EDIT_REGEX, pattern, &err);
    if (status == MGPT_EARG) /* of this schema */
        err.status = MGPT_EFILE;
    file_close(&file);
    arr_free(pattern);
    return status < 0 ? cli_fail(s->schema, &err) : EXIT_OK;
}

int sampling_begin_edits(struct sampling *s, const mgpt_model *model, const char *path,
                         const struct cli_command *command)
{
    int code = EXIT_OK;
    mgpt_error err;
    edit_rules_begin(&s->rules, model);
#define EDIT_SET(id, kind, ...)                                                                    \
    if (code == EXIT_OK)                                                                           \
        code = set_##kind(s, EDIT_##id, &s->edits.id, command);
    EDIT_SETTINGS(EDIT_SET)
    if (code == EXIT_OK)
        code = set_schema(s, command);
    if (code == EXIT_OK && !s->ignores_author)
        code = take_all_authors(s, model, path);
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

#define EDIT_OR_GIVEN(id, kind, ...) || (EDIT_GIVEN_IN_##kind(id))
int sampling_edits_given(const struct sampling *s)
{
    return s->schema != NULL EDIT_SETTINGS(EDIT_OR_GIVEN);
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
