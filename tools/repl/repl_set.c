/* How the repl chooses tokens: /set, and the table of settings that session files hold as well. */
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <string.h>

#define IN(field) offsetof(struct sampling, field)
const struct repl_setting repl_settings[REPL_SETTINGS] = {
    {"temp", "temp", CLI_REAL, IN(temperature), 1e30, "a number from 0 on"},
    {"top-k", "top_k", CLI_INT, IN(top_k), INT32_MAX, "a whole number from 0 on"},
    {"top-p", "top_p", CLI_REAL, IN(top_p), 1, "a number from 0 to 1"},
    {"min-p", "min_p", CLI_REAL, IN(min_p), 1, "a number from 0 to 1"},
    {"seed", "seed", CLI_U64, IN(seed), 0, "a whole number from 0 on"},
};

void *repl_setting_of(const struct repl_setting *setting, struct sampling *s)
{
    return (char *)s + setting->at;
}

static void print_settings(const struct repl *r)
{
    const mgpt_sampler *s = &r->sampling.sampler;
    printf("temp %g, top-k %d, top-p %g, min-p %g, seed %llu\n", (double)s->temperature,
           (int)s->top_k, (double)s->top_p, (double)s->min_p, (unsigned long long)r->sampling.seed);
}

/* Stores value in the setting called name; 0 after an error. */
static int change(struct sampling *s, const char *name, const char *value)
{
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++) {
        const struct cli_option row = {
            .kind = t->kind, .to = repl_setting_of(t, s), .min = 0, .max = t->max};
        if (strcmp(t->name, name) != 0)
            continue;
        if (cli_set_number(&row, value))
            return 1;
        repl_error("%s: expected %s, found '%s'", name, t->expected, value);
        return 0;
    }
    repl_error("unknown setting '%s': temp, top-k, top-p, min-p or seed", name);
    return 0;
}

void repl_run_set(struct repl *r, struct repl_args *args)
{
    const char *name = repl_word(args);
    if (!*name) {
        print_settings(r);
    } else if (change(&r->sampling, name, args->rest)) {
        sampling_apply(&r->sampling);
        if (strcmp(name, "seed") == 0)
            sampling_seed(&r->sampling, r->sampling.seed);
    }
}
