/* How the repl chooses tokens: /set, and the table of settings that session files hold as well. */
#include "base/error.h"
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

/* The settings of edits that are on: ", dry 0.8, ban x, ban y". */
static void print_edits(const struct edit_rules *rules)
{
    char text[256], clean[256];
    for (int id = 0; id < EDIT_N; id++)
        for (size_t i = 0; i < edit_rules_count(rules, (enum edit_id)id); i++) {
            edit_rules_print(rules, (enum edit_id)id, i, text, sizeof text);
            text_format(clean, sizeof clean, "%s", text);
            printf(", %s %s", edit_settings[id].name, clean);
        }
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
    print_edits(&s->rules);
    putchar('\n');
}

#define SETTING_NAME(field, kind, name, ...) name ", "
#define EDIT_NAME(id, kind, name, ...) name ", "

/* Sets an edit, or with "off" takes it away. 0 after an error. */
static int change_edit(struct sampling *s, enum edit_id id, const char *value)
{
    mgpt_error err;
    int off = strcmp(value, "off") == 0;
    if (off)
        edit_rules_clear(&s->rules, id);
    int status = off ? MGPT_OK : edit_rules_set(&s->rules, id, value, &err);
    if (status == MGPT_EARG)
        repl_error("%s: %s", edit_settings[id].name, err.text);
    else if (status < 0 || (status = chooser_open(&s->chooser, &s->rules, &err)) < 0)
        repl_failed(&err);
    return status == MGPT_OK;
}

/* Stores value in the setting called name; 0 after an error. */
static int change(struct sampling *s, const char *name, const char *value)
{
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++) {
        const struct cli_option row = {
            .kind = t->kind, .to = repl_setting_of(t, s), .min = 0, .max = t->max};
        if (strcmp(t->name, name) != 0)
            continue;
        if (t->kind == CLI_U64 ? sampling_read_seed(value, row.to) : cli_set_number(&row, value))
            return 1;
        repl_error("%s: expected a %snumber from 0 %s, found '%s'", name,
                   t->kind == CLI_REAL ? "" : "whole ", t->max == 1 ? "to 1" : "on", value);
        return 0;
    }
    enum edit_id edit = edit_setting_named(name);
    if (edit < EDIT_N)
        return change_edit(s, edit, value);
    repl_error("unknown setting '%s': expected one of " SAMPLER_SETTINGS(SETTING_NAME)
                   EDIT_SETTINGS(EDIT_NAME) "seed",
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
