/* See cli_groups.h. */
#include "common/cli_groups.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 1 }; /* the group of options that no row has */

static const struct {
    const char *title, *names;
} groups[] = {
    {"most used", " model prompt file tokens temp top-p seed chat json threads "},
    [TEXT] = {"text", ""},
    {"choosing tokens",
     " top-k min-p bias ban regex json-schema ignore-author repeat-penalty repeat-last presence "
     "frequency dry top-nsigma typical xtc mirostat rng rng-skip "},
    {"speed and memory", " batch lookup draft ctx-size kv isa no-fused "},
    {"looking", " top steer check-finite screen width history "},
};
enum { N_GROUPS = sizeof groups / sizeof *groups };

static size_t group_of(const struct cli_option *o)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", cli_long_name(o) ? cli_long_name(o) : "");
    for (size_t i = 0; i < N_GROUPS; i++)
        if (strstr(groups[i].names, word))
            return i;
    return TEXT;
}

static int draws_text(const struct cli_command *command)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, "--top-k") == 0)
            return 1;
    return 0;
}

void cli_each_grouped(const struct cli_command *command, void print(const struct cli_option *))
{
    size_t n = draws_text(command) ? N_GROUPS : 1;
    for (size_t g = 0; g < n; g++) {
        int printed = 0;
        for (size_t i = 0; i < command->n_options; i++) {
            if (n > 1 && group_of(&command->options[i]) != g)
                continue;
            if (n > 1 && !printed++)
                printf(" %s:\n", groups[g].title);
            print(&command->options[i]);
        }
    }
}
