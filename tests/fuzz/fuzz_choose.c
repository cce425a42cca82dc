/* Fuzz target: settings of drawing. The first byte of an input says what it is: 's' a JSON schema, whose expression must
 * parse or be too large; 'r' a regular expression, which never leads a text of names.gguf where nothing may follow; else a
 * line for each setting, "name value", with which tokens are drawn.
 */
#include "fuzz/fuzz.h"

#include "base/mem.h"
#include "choose/chooser.h"
#include "choose/schema.h"

#include <math.h>

enum { EXPRESSION_MOST = 40, SCHEMA_MOST = 400, DRAWN = 12, LOGITS = 27 };

static mgpt_model *model;

static void try_schema(const char *text, size_t n)
{
    char *pattern;
    struct pattern parsed;
    mgpt_error err = {.text = ""};
    int status = schema_pattern(text, n < SCHEMA_MOST ? n : SCHEMA_MOST, &pattern, &err);
    MUST(status == MGPT_OK || (status == MGPT_EFILE && err.text[0]));
    if (status == MGPT_OK && arr_len(pattern) < 20000) {
        MUST(strlen(pattern) + 1 == arr_len(pattern));
        if (pattern_parse(&parsed, pattern, strlen(pattern), &err) == MGPT_OK)
            pattern_free(&parsed);
        else
            MUST(strstr(err.text, "too large") || strstr(err.text, "too deep") ||
                 strstr(err.text, "too many ranges") || strstr(err.text, "without characters"));
    }
    arr_free(pattern);
}

/* Draws with logits of the input. */
static void draw_text(const struct edit_rules *rules, struct feed *f)
{
    struct chooser c = {.is_on = 0};
    int32_t tokens[DRAWN + 1] = {26};
    float logits[LOGITS];
    mgpt_sampler sampler = {.temperature = 1, .rng = feed_u32(f)};
    mgpt_error err;
    MUST(chooser_open(&c, rules, &err) == MGPT_OK);
    chooser_begin(&c, 1, 0);
    for (size_t n = 1; n <= DRAWN && !chooser_is_complete(&c, tokens, n); n++) {
        for (size_t i = 0; i < LOGITS; i++)
            logits[i] = (float)feed_byte(f) / 16;
        tokens[n] = chooser_draw(&c, &sampler, logits, LOGITS, tokens, n, &err);
        int is_alone = edit_rules_count(rules, EDIT_BIAS) + edit_rules_count(rules, EDIT_BAN) == 0;
        MUST((tokens[n] >= 0 && tokens[n] < LOGITS) || tokens[n] == MGPT_ETEXT);
        MUST(tokens[n] >= 0 || !is_alone || (c.regex && c.regex->failed));
        if (tokens[n] < 0 || mgpt_is_end(model, tokens[n]))
            break;
        n = (size_t)chooser_back(&c, tokens, n + 1, NULL) - 1;
        MUST(n <= DRAWN && chooser_final(&c, tokens, n + 1) <= n + 1);
        if (feed_byte(f) == 0) /* a ban may go back for long */
            break;
    }
    chooser_close(&c);
}

/* Settings of the lines; what is after an empty line draws. */
static void try_settings(char *text, struct feed *f, int is_regex)
{
    struct edit_rules rules;
    mgpt_error err = {.text = ""};
    edit_rules_begin(&rules, model);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *value = is_regex ? line : strchr(line, ' ');
        if (!is_regex && value)
            *value++ = 0;
        enum edit_id id = is_regex ? EDIT_REGEX : edit_setting_named(line);
        if (!value || id == EDIT_N || (id == EDIT_REGEX && strlen(value) > EXPRESSION_MOST))
            continue;
        char printed[256];
        int status = edit_rules_set(&rules, id, value, &err);
        MUST(status == MGPT_OK || (status == MGPT_EARG && err.text[0]));
        edit_rules_print(&rules, id, 0, printed, sizeof printed);
        if (is_regex)
            break;
    }
    draw_text(&rules, f);
    edit_rules_free(&rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *root = getenv("MGPT_SOURCE_ROOT");
    char path[4096];
    if (!model) {
        const mgpt_model_params params = {.vocab_only = 1};
        snprintf(path, sizeof path, "%s/weights/names.gguf", root ? root : ".");
        model = mgpt_open(path, &params, NULL);
        MUST(model);
    }
    if (size == 0)
        return 0;
    const uint8_t *empty = memchr(data, 0, size);
    size_t n = empty ? (size_t)(empty - data) : size;
    struct feed f = {data + n, size - n};
    char *text = malloc(n + 1);
    MUST(text);
    memcpy(text, data, n);
    text[n] = 0;
    if (text[0] == 's')
        try_schema(text + 1, n - 1);
    else if (n > 0)
        try_settings(text + (text[0] == 'r'), &f, text[0] == 'r');
    free(text);
    return 0;
}
