/* How the next token is chosen, as the command line says it: options, and the sampler they make. */
#ifndef MGPT_SAMPLING_H
#define MGPT_SAMPLING_H

#include "choose/author.h"
#include "choose/chooser.h"
#include "common/cli.h"
#include "engine/rng_python.h"
#include "mgpt.h"

/* Far more than a training script draws, and skipped in a fraction of a second. */
#define SAMPLING_MAX_SKIP 1e8

/* clang-format off */
/* The settings of mgpt_sampler that are numbers from 0 on, one row each. From it follow the field of
 * struct sampling, the option of generate and repl, /set with its completion and messages, and the
 * key in session files. 0 must be without effect in mgpt_sampler: lab pages set what they show.
 * X(field, kind, name, key, argument, most, usual, group, help): `usual` where neither an option nor the model's author
 * (choose/author.h) says anything; `group` of --help (cli.h). */
#define SAMPLER_SETTINGS(X)                                                                        \
    X(temperature, REAL, "temp", "temp", "T", 1e30, 0, IN_USED,                                    \
      "temperature; 0 always takes the likeliest token")                                           \
    X(top_k, INT, "top-k", "top_k", "K", INT32_MAX, 0, IN_CHOICE,                                  \
      "choose among the K likeliest (default 0: all)")                                             \
    X(top_p, REAL, "top-p", "top_p", "P", 1, 1, IN_USED,                                           \
      "choose among the likeliest that make up P (default 1: all)")                                \
    X(min_p, REAL, "min-p", "min_p", "P", 1, 0, IN_CHOICE,                                         \
      "drop tokens under P times the likeliest (default 0: none)")
/* clang-format on */

#define EDIT_GIVEN_NUMBERS const char *
#define EDIT_GIVEN_TEXTS struct cli_many
#define EDIT_GIVEN(id, kind, ...) EDIT_GIVEN_##kind id;
/* What the options of EDIT_SETTINGS were given. */
struct edits_given {
    EDIT_SETTINGS(EDIT_GIVEN)
};

#define SAMPLER_TYPE_REAL double
#define SAMPLER_TYPE_INT int32_t
#define SAMPLER_FIELD(field, kind, ...) SAMPLER_TYPE_##kind field;
struct sampling {
    SAMPLER_SETTINGS(SAMPLER_FIELD)
    double usual_temperature; /* of the command */
    const char *typed_seed;   /* NULL: none was given, and seed is 0 */
    uint64_t seed, skip;
    const char *rng, *schema; /* the file of --json-schema */
    int ignores_author;
    unsigned given; /* bit i: row i of SAMPLER_SETTINGS was given */
    struct edits_given edits;
    mgpt_sampler sampler;
    struct edit_rules rules;
    struct chooser chooser; /* of one text; samples side by side have theirs */
    struct rng_python python;
};

/* Initial values of a struct sampling: no setting is given. */
#define SAMPLER_NOT_GIVEN(field, ...) .field = -1,
#define SAMPLING_INITIAL SAMPLER_SETTINGS(SAMPLER_NOT_GIVEN)

/* clang-format off */
/* Rows of an option table, for a struct sampling *s. */
#define SAMPLER_OPTION(field, kind, name, key, argument, most, usual, group, help)                 \
    {"--" name, argument, CLI_##kind, &s->field, 0, most, help, group},
#define EDIT_CLI_NUMBERS CLI_TEXT
#define EDIT_CLI_TEXTS CLI_MANY
#define EDIT_OPTION(id, kind, name, argument, help, ...)                                           \
    {"--" name, argument, EDIT_CLI_##kind, &s->edits.id, 0, 0, help, IN_CHOICE},
#define SAMPLING_OPTIONS                                                                           \
    {"-s, --seed", "N", CLI_TEXT, &s->typed_seed, 0, 0,                                            \
     "seed (default 0); the same gives the same bytes; -1: draw and print one", IN_USED},          \
    SAMPLER_SETTINGS(SAMPLER_OPTION)                                                               \
    EDIT_SETTINGS(EDIT_OPTION)                                                                     \
    {"--json-schema", "FILE", CLI_TEXT, &s->schema, 0, 0,                                          \
     "draw a JSON document of this schema: a --regex made of it", IN_CHOICE},                      \
    {"--ignore-author", NULL, CLI_FLAG, &s->ignores_author, 0, 0,                                  \
     "without the settings that the model's author gives in its file", IN_CHOICE},                 \
    {"--rng", "NAME", CLI_TEXT, &s->rng, 0, 0,                                                     \
     "random numbers: splitmix (default), python (CPython's random)", IN_CHOICE},                  \
    {"--rng-skip", "N", CLI_U64, &s->skip, 0, SAMPLING_MAX_SKIP,                                   \
     "with --rng python: skip N 32-bit words after seeding", IN_CHOICE}
/* clang-format on */

/* Fills the sampler from the options. Returns an exit code. The struct must not move afterwards. */
int sampling_begin(struct sampling *s, const struct cli_command *command);

/* Sets the edits from the options, for a model that must stay, and what its author gives and no option does; says so, with
 * `path` as the model's name. Returns an exit code. */
int sampling_begin_edits(struct sampling *s, const mgpt_model *model, const char *path,
                         const struct cli_command *command);
void sampling_end(struct sampling *s);

/* It has been copied to another place, and is what counts from now on. */
void sampling_moved(struct sampling *s);

/* 1 if an option of an edit was given. */
int sampling_edits_given(const struct sampling *s);

/* Draws from CPython's numbers, or from SplitMix64. */
void sampling_use_python(struct sampling *s, int python);

/* Takes over changed settings. */
void sampling_apply(struct sampling *s);

/* The sampler of one sample of several: sample i draws what it would draw if it were alone. Sample
 * 0 of a seed begins with the seed itself, sample i > 0 with the i-th number of a SplitMix64 that
 * begins with the first number of the seed's. With --rng python one stream goes through all
 * samples, as in microgpt: the sampler is then a view of it, and samples must be drawn one after
 * the other. */
mgpt_sampler sampling_of_sample(const struct sampling *s, uint64_t sample);

/* 1 when samples share one stream. */
int sampling_is_shared(const struct sampling *s);

/* Starts the random numbers anew. */
void sampling_seed(struct sampling *s, uint64_t seed);

/* Draws a seed of 32 bits. 0: the system has no random numbers. */
int sampling_draw_seed(uint64_t *seed);

/* Reads a seed; "-1": draws one and prints it. 0: it is not a number. */
int sampling_read_seed(const char *text, uint64_t *seed);

#endif
