/* How the repl chooses tokens: /set, and the table of settings that session files hold as well. */
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <string.h>

#define SETTING(field, kind, name, key, argument, most, ...)                                       \
    {name, key, CLI_##kind, offsetof(struct sampling, field), most},
const struct repl_setting repl_settings[] = {
    SAMPLER_SETTINGS(SETTING){"seed", "seed", CLI_U64, offsetof(struct sampling, seed), 0},
};
_Static_assert(sizeof repl_settings / sizeof *repl_settings == REPL_SETTINGS, "a row each");

void *repl_setting_of(const struct repl_setting *setting, struct sampling *s)
{
    return (char *)s + setting->at;
}

/* "temp 0.8, top-k 0, ...". */
static void print_settings(struct sampling *s)
{
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++) {
        const void *at = repl_setting_of(t, s);
        printf("%s%s ", t > repl_settings ? ", " : "", t->name);
        if (t->kind == CLI_REAL)
            printf("%g", *(const double *)at);
        else if (t->kind == CLI_INT)
            printf("%d", (int)*(const int32_t *)at);
        else
            printf("%llu", (unsigned long long)*(const uint64_t *)at);
    }
    putchar('\n');
}

#define SETTING_NAME(field, kind, name, ...) name ", "

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
        repl_error("%s: expected a %snumber from 0 %s, found '%s'", name,
                   t->kind == CLI_REAL ? "" : "whole ", t->max == 1 ? "to 1" : "on", value);
        return 0;
    }
    repl_error("unknown setting '%s': expected one of " SAMPLER_SETTINGS(SETTING_NAME) "seed",
               name);
    return 0;
}

void repl_run_set(struct repl *r, struct repl_args *args)
{
    const char *name = repl_word(args);
    if (!*name) {
        print_settings(&r->sampling);
    } else if (change(&r->sampling, name, args->rest)) {
        sampling_apply(&r->sampling);
        if (strcmp(name, "seed") == 0)
            sampling_seed(&r->sampling, r->sampling.seed);
    }
}
