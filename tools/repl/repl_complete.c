/* What a word typed in the repl can be completed to: commands, and what their arguments name.
 * Tokens are completed in quotes and escaped, with no space or comma in them, which would end the
 * word. */
#include "base/mem.h"
#include "common/text.h"
#include "engine/layers.h"
#include "repl/line.h"
#include "repl/repl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct completion {
    struct repl *repl;
    const char *begin;
    struct line_words *words;
};

typedef void fill_fn(const struct completion *c);

/* Adds a word that begins as what was typed. 0: there are enough. */
static int offer(const struct completion *c, const char *word)
{
    return strncmp(word, c->begin, strlen(c->begin)) != 0 || line_add(c->words, word);
}

static void fill_commands(const struct completion *c)
{
    for (size_t i = 0; i < repl_n_commands; i++) {
        for (const char *const *name = repl_commands[i].names; *name; name++)
            offer(c, *name);
    }
}

static void fill_branches(const struct completion *c)
{
    for (size_t i = 0; i < arr_len(c->repl->branches); i++)
        offer(c, c->repl->branches[i].name);
}

static void fill_settings(const struct completion *c)
{
    for (size_t i = 0; i < REPL_SETTINGS; i++)
        offer(c, repl_settings[i].name);
    for (size_t i = 0; i < EDIT_N; i++)
        offer(c, edit_settings[i].name);
}

static void fill_parts(const struct completion *c)
{
    const mgpt_info *info = &c->repl->engine.info;
    char word[32];
    for (int32_t layer = 0; layer < info->n_layer; layer++) {
        snprintf(word, sizeof word, "mlp.%d", (int)layer);
        offer(c, word);
        for (int32_t head = 0; head < engine_heads(c->repl->engine.model, layer); head++) {
            snprintf(word, sizeof word, "%d.%d", (int)layer, (int)head);
            if (!offer(c, word))
                return;
        }
    }
}

static void fill_kinds(const struct completion *c)
{
    static const char *const kinds[] = {"zero", "mean", "off"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        offer(c, kinds[i]);
}

static void fill_hooks(const struct completion *c)
{
    const struct hook *hooks = repl_hooks(c->repl);
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (!offer(c, hooks[i].name))
            return;
}

static void fill_tensors(const struct completion *c)
{
    const mgpt_model *model = c->repl->engine.model;
    mgpt_tensor t;
    for (size_t i = 0; i < mgpt_n_tensors(model); i++)
        if (mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK && !offer(c, t.name))
            return;
}

/* ---- files ---- */

/* A file of the directory that the word names, with a slash when it is one itself. */
static int offer_file(const struct completion *c, size_t n_directory, const char *name)
{
    char path[1024];
    struct stat st;
    int n = snprintf(path, sizeof path - 1, "%.*s%s", (int)n_directory, c->begin, name);
    if (n < 0 || (size_t)n >= sizeof path - 1 || strpbrk(name, " \t,"))
        return 1; /* it would be cut into words */
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        memcpy(path + n, "/", 2);
    return offer(c, path);
}

static void fill_files(const struct completion *c)
{
    const char *slash = strrchr(c->begin, '/');
    size_t n = slash ? (size_t)(slash - c->begin) + 1 : 0;
    char *directory = n ? strndup(c->begin, n) : strdup(".");
    DIR *d = directory ? opendir(directory) : NULL;
    const struct dirent *entry;
    while (d && (entry = readdir(d)))
        if ((entry->d_name[0] != '.' || c->begin[n] == '.') && !offer_file(c, n, entry->d_name))
            break;
    if (d)
        closedir(d);
    free(directory);
}

/* ---- tokens ---- */

/* One quoted token, n bytes: as a word. What was typed may lack the quote. */
static int offer_token(const struct completion *c, const char *quoted, size_t n)
{
    char word[128];
    size_t length = 0;
    for (size_t i = 0; i < n && length + 5 < sizeof word; i++) {
        int breaks = quoted[i] == ' ' || quoted[i] == ',';
        int k = breaks ? snprintf(word + length, 5, "\\x%02X", (unsigned char)quoted[i]) : 1;
        if (!breaks)
            word[length] = quoted[i];
        length += (size_t)k;
    }
    word[length] = 0;
    const char *typed = word + (*c->begin != '"');
    int fits = strncmp(typed, c->begin, strlen(c->begin)) == 0 && n < sizeof word / 4;
    return !fits || line_add(c->words, word);
}

static void fill_tokens(const struct completion *c)
{
    char *text = NULL;
    size_t n = 0, n_bytes;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return;
    for (int32_t i = 0; i < c->repl->engine.info.n_tokens; i++) {
        const char *bytes = mgpt_piece(c->repl->engine.model, i, &n_bytes);
        if (n_bytes > 0) {
            text_print_quoted(to, bytes, n_bytes);
            putc('\n', to); /* escaped in the token itself */
        }
    }
    if (fclose(to) == 0 && text) /* glibc may close well without memory */
        for (const char *p = text, *end; p < text + n; p = end + 1) {
            end = memchr(p, '\n', (size_t)(text + n - p));
            if (!end || !offer_token(c, p, (size_t)(end - p)))
                break;
        }
    free(text);
}

/* ---- which of them ---- */

/* What the words of an argument are, by the type that commands.inc gives it. */
static const struct {
    const char *type;
    fill_fn *fill;
} fills[] = {
    {"tokens", fill_tokens},    {"token", fill_tokens},      {"[token]", fill_tokens},
    {"[other]", fill_tokens},   {"branch", fill_branches},   {"setting", fill_settings},
    {"part", fill_parts},       {"[part]", fill_parts},      {"kind", fill_kinds},
    {"hooks", fill_hooks},      {"file", fill_files},        {"tensor", fill_tensors},
    {"command", fill_commands}, {"timeline", fill_branches}, {"[branch]", fill_branches},
};

/* Returns the number of words before the one to complete; *last is the last of them, of *length
 * bytes. */
static size_t count_words(const char *line, const char **last, size_t *length)
{
    size_t n = 0;
    for (line += strspn(line, " \t"); *line; n++) {
        *last = line;
        *length = strcspn(line, " \t");
        line += *length;
        line += strspn(line, " \t");
    }
    return n;
}

/* The n-th type of a command, counted from 1; of "tokens" there are any number. */
static const char *type_at(const struct repl_command *command, size_t n)
{
    const char *at = command->types;
    if (strncmp(at, "-o ", 3) == 0)
        at += 3;
    for (; n > 1 && *at && strcmp(at, "tokens") != 0; n--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return at;
}

void repl_complete(const char *before, const char *begin, struct line_words *words, void *user)
{
    const struct completion c = {user, begin, words};
    const char *last = "";
    size_t length = 0, n = count_words(before, &last, &length);
    const struct repl_command *command = repl_named(before, strcspn(before, " \t"));
    if (n == 0 && *begin == '/')
        fill_commands(&c);
    if (n > 1 && length == 2 && memcmp(last, "-o", 2) == 0) {
        fill_files(&c);
        return;
    }
    const char *type = n > 0 && command ? type_at(command, n) : "";
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (strlen(fills[i].type) == strcspn(type, " ") &&
            memcmp(fills[i].type, type, strlen(fills[i].type)) == 0)
            fills[i].fill(&c);
}
